// SPDX-License-Identifier: GPL-2.0
/*
 * Keeps interrupts away from a run, by one of two policies. The default is to
 * switch them off. But an interrupt that is pending behind CLI slows retirement
 * on some cores (Ice Lake). So they can also stay on, with the entries of the
 * local APIC's vector table masked.
 *
 * Source for the timer modes: Intel SDM volume 3, 11.5.4.
 */
#include <linux/irqflags.h>
#include <asm/apic.h>
#include <asm/msr-index.h>
#include "compat.h"
#include "uopscope.h"

#define TIMER_MODE	(3 << 17)

static const u32 lvt_list[] = {
	APIC_LVTT, APIC_LVTTHMR, APIC_LVTPC, APIC_LVT0, APIC_LVT1, APIC_LVTERR,
	APIC_LVTCMCI,
};

/* What a reset of the local APIC loses; writable in both of its modes. */
static const u32 apic_list[] = {
	APIC_TASKPRI, APIC_SPIV, APIC_TDCR, APIC_LVTT, APIC_LVTTHMR, APIC_LVTPC,
	APIC_LVT0, APIC_LVT1, APIC_LVTERR,
};

/* And what only xAPIC mode lets software write (in x2APIC mode: fixed). */
static const u32 xapic_list[] = { APIC_DFR, APIC_LDR };

/* Of the batch's CPU, taken before the batch. */
static struct {
	u64 base;
	u32 initial;	/* of the timer, which counts down from it */
	u32 value[ARRAY_SIZE(apic_list)];
	u32 xapic_value[ARRAY_SIZE(xapic_list)];
} saved_apic;

bool uops_quiet_has_apic(void)
{
	return boot_cpu_has(X86_FEATURE_APIC) && apic;
}

/* The CMCI entry is there only with seven entries or more. */
static u32 num_entries(void)
{
	u32 highest = (apic->read(APIC_LVR) >> 16) & 0xff;

	return min_t(u32, highest >= 6 ? 7 : 6, ARRAY_SIZE(lvt_list));
}

/* Before a batch, on its CPU. */
void uops_quiet_prepare(void)
{
	u32 i;

	saved_apic.base = 0;
	if (!uops_quiet_has_apic() || rdmsrq_safe(MSR_IA32_APICBASE, &saved_apic.base))
		return;
	saved_apic.initial = apic->read(APIC_TMICT);
	for (i = 0; i < ARRAY_SIZE(apic_list); i++)
		saved_apic.value[i] = apic->read(apic_list[i]);
	if (saved_apic.base & X2APIC_ENABLE)
		return;
	for (i = 0; i < ARRAY_SIZE(xapic_list); i++)
		saved_apic.xapic_value[i] = apic->read(xapic_list[i]);
}

/*
 * Neither MMIO writes nor WRMSR of the APIC's registers are ordered before WRMSR
 * of the deadline: the timer could still be in another mode (SDM volume 3, 11.5.4.1).
 */
static void write_deadline(u64 deadline)
{
	asm volatile("mfence; lfence" : : : "memory");
	wrmsrq_safe(MSR_IA32_TSC_DEADLINE, deadline);
}

/* Let the timer expire soon, or begin a period: when it should have is lost. */
static void expire_soon(void)
{
	u32 mode = apic->read(APIC_LVTT) & TIMER_MODE;

	if (mode == APIC_LVT_TIMER_TSCDEADLINE)
		write_deadline(rdtsc() + 1);
	else if (mode == APIC_LVT_TIMER_PERIODIC)
		apic->write(APIC_TMICT, saved_apic.initial);
	else
		apic->write(APIC_TMICT, 1);
}

static void write_apic(void)
{
	u32 i;

	if (!(saved_apic.base & X2APIC_ENABLE))
		for (i = 0; i < ARRAY_SIZE(xapic_list); i++)
			apic->write(xapic_list[i], saved_apic.xapic_value[i]);
	/* a vector table entry can be unmasked only once SPIV enables the APIC */
	for (i = 0; i < ARRAY_SIZE(apic_list); i++)
		apic->write(apic_list[i], saved_apic.value[i]);
	expire_soon();
}

/*
 * Put IA32_APIC_BASE back; true if the blob had changed it. The mode changes only
 * from disabled to xAPIC to x2APIC, and from each of them to disabled, which resets
 * the local APIC (SDM volume 3, 11.12.5).
 */
bool uops_quiet_restore_apic(void)
{
	u64 now;

	if (!saved_apic.base || rdmsrq_safe(MSR_IA32_APICBASE, &now) ||
	    now == saved_apic.base)
		return false;
	if (now & X2APIC_ENABLE & ~saved_apic.base)
		wrmsrq_safe(MSR_IA32_APICBASE,
			    saved_apic.base & ~(X2APIC_ENABLE | XAPIC_ENABLE));
	if (saved_apic.base & X2APIC_ENABLE)
		wrmsrq_safe(MSR_IA32_APICBASE, saved_apic.base & ~X2APIC_ENABLE);
	wrmsrq_safe(MSR_IA32_APICBASE, saved_apic.base);
	write_apic();
	return true;
}

static void mask_entries(struct uops_quiet *quiet)
{
	u32 i;

	for (i = 0; i < num_entries(); i++) {
		quiet->lvt[i] = apic->read(lvt_list[i]);
		apic->write(lvt_list[i], quiet->lvt[i] | APIC_LVT_MASKED);
	}
	if ((quiet->lvt[0] & TIMER_MODE) == APIC_LVT_TIMER_TSCDEADLINE)
		rdmsrq_safe(MSR_IA32_TSC_DEADLINE, &quiet->deadline);
}

/* A timer that expired while it was masked is lost: let it expire again. */
static void restart_timer(const struct uops_quiet *quiet)
{
	u32 mode = quiet->lvt[0] & TIMER_MODE;

	if (quiet->lvt[0] & APIC_LVT_MASKED)
		return;
	if (mode == APIC_LVT_TIMER_TSCDEADLINE && quiet->deadline)
		write_deadline(quiet->deadline);
	if (mode == APIC_LVT_TIMER_ONESHOT && apic->read(APIC_TMICT) &&
	    !apic->read(APIC_TMCCT))
		apic->write(APIC_TMICT, 1);
}

static void unmask_entries(const struct uops_quiet *quiet)
{
	u32 i;

	for (i = 0; i < num_entries(); i++)
		apic->write(lvt_list[i], quiet->lvt[i]);
	if (!quiet->timer_taken)
		restart_timer(quiet);
	else if (!(quiet->lvt[0] & APIC_LVT_MASKED))
		expire_soon();
}

/* Returns with interrupts off; with mask_lvt the run turns them on. */
void uops_quiet_begin(struct uops_quiet *quiet, bool mask_lvt)
{
	local_irq_save(quiet->flags);
	quiet->mask_lvt = mask_lvt;
	quiet->timer_taken = false;
	if (mask_lvt)
		mask_entries(quiet);
}

void uops_quiet_end(struct uops_quiet *quiet)
{
	if (quiet->mask_lvt)
		unmask_entries(quiet);
	local_irq_restore(quiet->flags);
}
