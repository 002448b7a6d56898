// SPDX-License-Identifier: GPL-2.0
/*
 * Keeping interrupts away from a run, by one of two policies: they are off
 * (default), or they stay on while the entries of the local APIC's vector table
 * are masked, since an interrupt that is pending behind CLI slows retirement on
 * some cores (Ice Lake).
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
		wrmsrq_safe(MSR_IA32_TSC_DEADLINE, quiet->deadline);
	if (mode == APIC_LVT_TIMER_ONESHOT && apic->read(APIC_TMICT) &&
	    !apic->read(APIC_TMCCT))
		apic->write(APIC_TMICT, 1);
}

static void unmask_entries(const struct uops_quiet *quiet)
{
	u32 i;

	for (i = 0; i < num_entries(); i++)
		apic->write(lvt_list[i], quiet->lvt[i]);
	restart_timer(quiet);
}

/* Returns with interrupts off; with mask_lvt the run turns them on. */
void uops_quiet_begin(struct uops_quiet *quiet, bool mask_lvt)
{
	local_irq_save(quiet->flags);
	quiet->mask_lvt = mask_lvt;
	if (mask_lvt)
		mask_entries(quiet);
}

void uops_quiet_end(struct uops_quiet *quiet)
{
	if (quiet->mask_lvt)
		unmask_entries(quiet);
	local_irq_restore(quiet->flags);
}
