// SPDX-License-Identifier: GPL-2.0
/*
 * Event selection. All of the PMU's registers are saved when a batch starts and
 * written back when it ends. No others are written here (pmu_write). Other registers
 * that a set of counters asks for are written by registers.c.
 *
 * From version 6 on the registers of Intel's counters have addresses of their own,
 * with room for more than eight. A bit mask says which counters there are. It may
 * have gaps.
 *
 * Microcode of Skylake to Cascade Lake takes counter 3 for transactional memory,
 * unless MSR TSX_FORCE_ABORT makes every transaction abort. A batch sets it.
 *
 * Sources: Intel SDM volume 3, 20.2 (architectural performance monitoring) and
 * CPUID leaves 0AH and 23H; Intel document 604224 (TSX_FORCE_ABORT); AMD APM
 * volume 2, 13.2 (PERF_CTL, PerfMonV2) and CPUID 8000_0001H, 8000_0022H.
 */
#include <linux/bits.h>
#include <linux/errno.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <asm/cpufeature.h>
#include <asm/msr-index.h>
#include <asm/nmi.h>
#include <asm/perf_event.h>
#include <asm/processor.h>
#include "uopscope.h"

#define SEL_OS		BIT_ULL(17)
#define SEL_EN		BIT_ULL(22)
#define SEL_EVENT	GENMASK_ULL(7, 0)
#define SEL_UMASK	GENMASK_ULL(15, 8)
#define SEL_EDGE	BIT_ULL(18)
#define SEL_ANY		BIT_ULL(21)
#define SEL_INV		BIT_ULL(23)
#define SEL_CMASK	GENMASK_ULL(31, 24)
#define SEL_EVENT_HIGH	GENMASK_ULL(35, 32)	/* AMD */
#define SEL_EQ		BIT_ULL(36)		/* leaf 23H */
#define SEL_UMASK2	GENMASK_ULL(47, 40)	/* leaf 23H */
#define SEL_COMMON	(SEL_EVENT | SEL_UMASK | SEL_EDGE | SEL_INV | SEL_CMASK)

#define FULL_WRITE	BIT_ULL(13)	/* in IA32_PERF_CAPABILITIES */
#define FIXED_OS	1ULL		/* of the 4 control bits of each */
#define FIXED_BASE	32		/* of the fixed counters in GLOBAL_CTRL */

#define LEGACY_PROG	8	/* counters with registers at the old addresses */
#define NEW_PROG	0x1900u	/* from version 6 on */
#define NEW_SELECT	0x1901u
#define NEW_FIXED	0x1980u
#define NEW_STEP	4

#define AMD_EVNTSEL	0xc0010200u
#define AMD_PERFCTR	0xc0010201u
#define AMD_GLOBAL_CTL	0xc0000301u

struct uops_pmu uops_pmu;

static struct {
	u64 select[UOPS_MAX_PROG];
	u64 prog[UOPS_MAX_PROG];
	u64 fixed[UOPS_MAX_FIXED];
	u64 fixed_control;
	u64 global_control;
	u64 tsx_abort;
} saved;

static bool has_new_addresses(void)
{
	return uops_pmu.kind == UOPS_PMU_INTEL && uops_pmu.version >= 6;
}

static u32 select_msr(u32 i)
{
	if (uops_pmu.kind == UOPS_PMU_AMD)
		return AMD_EVNTSEL + 2 * i;
	return has_new_addresses() ? NEW_SELECT + NEW_STEP * i :
				     MSR_ARCH_PERFMON_EVENTSEL0 + i;
}

static u32 prog_msr(u32 i)
{
	if (uops_pmu.kind == UOPS_PMU_AMD)
		return AMD_PERFCTR + 2 * i;
	return has_new_addresses() ? NEW_PROG + NEW_STEP * i :
				     MSR_ARCH_PERFMON_PERFCTR0 + i;
}

static u32 fixed_msr(u32 i)
{
	return has_new_addresses() ? NEW_FIXED + NEW_STEP * i :
				     MSR_CORE_PERF_FIXED_CTR0 + i;
}

static bool has_prog(u32 i)
{
	return i < UOPS_MAX_PROG && uops_pmu.prog_mask & BIT(i);
}

static bool has_fixed(u32 i)
{
	return i < UOPS_MAX_FIXED && uops_pmu.fixed_mask & BIT(i);
}

/* A plain write of an Intel counter sign-extends 32 bits; its alias does not. */
static u32 prog_write_msr(u32 i)
{
	if (uops_pmu.features & UOPS_FEATURE_FULL_WRITE && !has_new_addresses())
		return MSR_IA32_PMC0 + i;
	return prog_msr(i);
}

static u32 global_msr(void)
{
	return uops_pmu.kind == UOPS_PMU_AMD ? AMD_GLOBAL_CTL :
					       MSR_CORE_PERF_GLOBAL_CTRL;
}

static bool has_global(void)
{
	return uops_pmu.version >= 2;
}

static bool may_write(u32 msr)
{
	u32 i;

	for (i = 0; i < UOPS_MAX_PROG; i++)
		if (has_prog(i) && (msr == select_msr(i) || msr == prog_write_msr(i)))
			return true;
	for (i = 0; i < UOPS_MAX_FIXED; i++)
		if (has_fixed(i) && msr == fixed_msr(i))
			return true;
	if (msr == MSR_CORE_PERF_FIXED_CTR_CTRL)
		return uops_pmu.fixed_mask;
	if (msr == MSR_TSX_FORCE_ABORT)
		return uops_pmu.features & UOPS_FEATURE_TSX_ABORT;
	return has_global() && msr == global_msr();
}

static int pmu_write(u32 msr, u64 value)
{
	return may_write(msr) ? uops_wrmsr(msr, value) : -EPERM;
}

static u32 mask_of(u32 count, u32 most)
{
	count = min(count, most);
	return count ? GENMASK(count - 1, 0) : 0;
}

/* Leaf 23H knows counters that leaf 0AH has no room for. */
static void detect_bitmaps(void)
{
	u32 regs[4];

	uops_cpuid(0x23, 1, regs);
	uops_pmu.prog_mask = regs[0];
	if (!has_new_addresses())
		uops_pmu.prog_mask &= GENMASK(LEGACY_PROG - 1, 0);
	uops_pmu.fixed_mask = regs[1] & GENMASK(UOPS_MAX_FIXED - 1, 0);
}

static void detect_intel(void)
{
	u32 regs[4], extended[4] = {};
	u64 capabilities;

	uops_cpuid(0, 0, regs);
	if (regs[0] < 0xa)
		return;
	if (regs[0] >= 0x23)
		uops_cpuid(0x23, 0, extended);
	uops_cpuid(0xa, 0, regs);
	uops_pmu.version = regs[0] & 0xff;
	if (uops_pmu.version < 2)
		return;
	uops_pmu.kind = UOPS_PMU_INTEL;
	uops_pmu.prog_mask = mask_of((regs[0] >> 8) & 0xff, LEGACY_PROG);
	uops_pmu.width_prog = (regs[0] >> 16) & 0xff;
	uops_pmu.fixed_mask = mask_of(regs[3] & 0x1f, UOPS_MAX_FIXED);
	if (uops_pmu.version >= 5)
		uops_pmu.fixed_mask |= regs[2] & GENMASK(UOPS_MAX_FIXED - 1, 0);
	uops_pmu.width_fixed = (regs[3] >> 5) & 0xff;
	uops_pmu.managed = uops_pmu.version < 6;
	if (extended[0] & BIT(1))
		detect_bitmaps();
	uops_pmu.allowed = SEL_COMMON;
	if (uops_pmu.version >= 3 && !(regs[3] & BIT(15)))
		uops_pmu.allowed |= SEL_ANY;
	if (extended[1] & BIT(0))
		uops_pmu.allowed |= SEL_UMASK2;
	if (extended[1] & BIT(1))
		uops_pmu.allowed |= SEL_EQ;
	if (!uops_rdmsr(MSR_IA32_PERF_CAPABILITIES, &capabilities) &&
	    (capabilities & FULL_WRITE))
		uops_pmu.features |= UOPS_FEATURE_FULL_WRITE;
	uops_cpuid(7, 0, regs);
	if (regs[3] & BIT(13))
		uops_pmu.features |= UOPS_FEATURE_TSX_ABORT;
}

static void detect_amd(void)
{
	u32 highest[4], features[4], monitor[4] = {};

	uops_cpuid(0x80000000, 0, highest);
	if (highest[0] < 0x80000001)
		return;
	uops_cpuid(0x80000001, 0, features);
	if (!(features[2] & BIT(23)))
		return;
	if (highest[0] >= 0x80000022)
		uops_cpuid(0x80000022, 0, monitor);
	uops_pmu.kind = UOPS_PMU_AMD;
	uops_pmu.version = monitor[0] & BIT(0) ? 2 : 1;
	uops_pmu.managed = true;
	uops_pmu.prog_mask = mask_of(6, UOPS_MAX_PROG);
	if (uops_pmu.version == 2)
		uops_pmu.prog_mask = mask_of(monitor[1] & 0xf, UOPS_MAX_PROG);
	uops_pmu.width_prog = 48;
	uops_pmu.allowed = SEL_COMMON | SEL_EVENT_HIGH;
}

static void detect_free_running(void)
{
	u32 regs[4];
	u64 value;

	uops_cpuid(6, 0, regs);
	if (regs[2] & BIT(0))
		uops_pmu.features |= UOPS_FEATURE_APERFMPERF;
	if (uops_vendor() == X86_VENDOR_INTEL && !uops_rdmsr(MSR_SMI_COUNT, &value))
		uops_pmu.features |= UOPS_FEATURE_SMI_COUNT;
	uops_cpuid(0x80000000, 0, regs);
	if (regs[0] < 0x80000008)
		return;
	uops_cpuid(0x80000008, 0, regs);
	if (regs[1] & BIT(1))
		uops_pmu.features |= UOPS_FEATURE_IRPERF;
}

/* On the CPU that will run: the cores of a hybrid CPU differ. */
void uops_pmu_init(void)
{
	u32 vendor = uops_vendor();

	memset(&uops_pmu, 0, sizeof(uops_pmu));
	detect_free_running();
	if (vendor == X86_VENDOR_INTEL)
		detect_intel();
	else if (vendor == X86_VENDOR_AMD || vendor == X86_VENDOR_HYGON)
		detect_amd();
}

static int save_registers(void)
{
	int error = 0;
	u32 i;

	if (has_global())
		error |= uops_rdmsr(global_msr(), &saved.global_control);
	for (i = 0; i < UOPS_MAX_PROG; i++) {
		if (!has_prog(i))
			continue;
		error |= uops_rdmsr(select_msr(i), &saved.select[i]);
		error |= uops_rdmsr(prog_msr(i), &saved.prog[i]);
	}
	if (uops_pmu.fixed_mask)
		error |= uops_rdmsr(MSR_CORE_PERF_FIXED_CTR_CTRL, &saved.fixed_control);
	for (i = 0; i < UOPS_MAX_FIXED; i++)
		if (has_fixed(i))
			error |= uops_rdmsr(fixed_msr(i), &saved.fixed[i]);
	if (uops_pmu.features & UOPS_FEATURE_TSX_ABORT)
		error |= uops_rdmsr(MSR_TSX_FORCE_ABORT, &saved.tsx_abort);
	return error ? -EIO : 0;
}

/* Whether somebody counts with the counters that were just saved. */
static bool is_counting(void)
{
	u32 i;

	if (saved.fixed_control && uops_pmu.fixed_mask)
		return true;
	for (i = 0; i < UOPS_MAX_PROG; i++)
		if (has_prog(i) && saved.select[i] & SEL_EN)
			return true;
	return false;
}

/* Counter 3 counts what it is told, as long as every transaction aborts. */
static int take_counter_3(void)
{
	if (!(uops_pmu.features & UOPS_FEATURE_TSX_ABORT) ||
	    saved.tsx_abort & MSR_TFA_RTM_FORCE_ABORT)
		return 0;
	return pmu_write(MSR_TSX_FORCE_ABORT, saved.tsx_abort | MSR_TFA_RTM_FORCE_ABORT);
}

static void give_counter_3_back(void)
{
	if (uops_pmu.features & UOPS_FEATURE_TSX_ABORT &&
	    !(saved.tsx_abort & MSR_TFA_RTM_FORCE_ABORT))
		pmu_write(MSR_TSX_FORCE_ABORT, saved.tsx_abort);
}

static int stop_all(void)
{
	int error = 0;
	u32 i;

	if (has_global())
		error |= pmu_write(global_msr(), 0);
	for (i = 0; i < UOPS_MAX_PROG; i++)
		if (has_prog(i))
			error |= pmu_write(select_msr(i), 0);
	if (uops_pmu.fixed_mask)
		error |= pmu_write(MSR_CORE_PERF_FIXED_CTR_CTRL, 0);
	return error ? -EIO : 0;
}

static void restore_registers(void)
{
	u32 i;

	stop_all();
	for (i = 0; i < UOPS_MAX_PROG; i++) {
		if (!has_prog(i))
			continue;
		pmu_write(prog_write_msr(i), saved.prog[i]);
		pmu_write(select_msr(i), saved.select[i]);
	}
	for (i = 0; i < UOPS_MAX_FIXED; i++)
		if (has_fixed(i))
			pmu_write(fixed_msr(i), saved.fixed[i]);
	if (uops_pmu.fixed_mask)
		pmu_write(MSR_CORE_PERF_FIXED_CTR_CTRL, saved.fixed_control);
	if (has_global())
		pmu_write(global_msr(), saved.global_control);
}

/* Counters 0 to count - 1, in the kernel's own list of who has which. */
static void give_back(u32 count)
{
	while (count--) {
		if (!uops_pmu.managed || !has_prog(count))
			continue;
		release_perfctr_nmi(prog_msr(count));
		release_evntsel_nmi(select_msr(count));
	}
}

static bool reserve_one(u32 i)
{
	if (!uops_pmu.managed || !has_prog(i))
		return true;
	if (!reserve_perfctr_nmi(prog_msr(i)))
		return false;
	if (reserve_evntsel_nmi(select_msr(i)))
		return true;
	release_perfctr_nmi(prog_msr(i));
	return false;
}

static int reserve_all(void)
{
	u32 i;

	for (i = 0; i < UOPS_MAX_PROG; i++)
		if (!reserve_one(i)) {
			give_back(i);
			return -EBUSY;
		}
	return 0;
}

/*
 * -EBUSY if perf or the NMI watchdog has counters. Of those at the new addresses
 * the kernel has no list: there, a counter that is enabled is somebody's.
 */
int uops_pmu_reserve(void)
{
	int error = reserve_all();

	if (error)
		return error;
	error = save_registers();
	if (!error && !uops_pmu.managed && uops_pmu.kind != UOPS_PMU_NONE && is_counting())
		error = -EBUSY;
	if (!error && take_counter_3())
		error = -EIO;
	if (error)
		give_back(UOPS_MAX_PROG);
	return error;
}

void uops_pmu_release(void)
{
	uops_registers_restore();
	restore_registers();
	give_counter_3_back();
	give_back(UOPS_MAX_PROG);
}

static int check_msr(const struct uops_counter *counter)
{
	u64 value, needed = 0;

	if (counter->config)
		return -EINVAL;
	if (counter->index == UOPS_MSR_APERF || counter->index == UOPS_MSR_MPERF)
		needed = UOPS_FEATURE_APERFMPERF;
	else if (counter->index == UOPS_MSR_IRPERF)
		needed = UOPS_FEATURE_IRPERF;
	if ((uops_pmu.features & needed) != needed)
		return -ENODEV;
	return uops_rdmsr(counter->index, &value) ? -ENODEV : 0;
}

static int check_counter(const struct uops_counter *counter)
{
	switch (counter->kind) {
	case UOPS_COUNTER_TSC:
		return counter->index >= UOPS_MAX_COUNTERS || counter->config ? -EINVAL : 0;
	case UOPS_COUNTER_PROG:
		if (!has_prog(counter->index))
			return -ENODEV;
		return counter->config & ~uops_pmu.allowed ? -EINVAL : 0;
	case UOPS_COUNTER_FIXED:
		if (!has_fixed(counter->index))
			return -ENODEV;
		return counter->config ? -EINVAL : 0;
	case UOPS_COUNTER_MSR:
		return check_msr(counter);
	default:
		return -EINVAL;
	}
}

/* Counters that exist, none twice. */
int uops_pmu_check(const struct uops_counter_set *set)
{
	u32 i, j;
	int error;

	if (set->size != sizeof(*set) || set->num_counters > UOPS_MAX_COUNTERS)
		return -EINVAL;
	for (i = 0; i < set->num_counters; i++) {
		error = check_counter(&set->counters[i]);
		if (error)
			return error;
		for (j = 0; j < i; j++)
			if (set->counters[i].kind == set->counters[j].kind &&
			    set->counters[i].index == set->counters[j].index)
				return -EINVAL;
	}
	return uops_registers_check(set);
}

static int program_one(const struct uops_counter *counter, u64 *enabled, u64 *fixed)
{
	u32 i = counter->index;

	switch (counter->kind) {
	case UOPS_COUNTER_PROG:
		*enabled |= BIT_ULL(i);
		if (pmu_write(prog_write_msr(i), 0))
			return -EIO;
		return pmu_write(select_msr(i), counter->config | SEL_OS | SEL_EN);
	case UOPS_COUNTER_FIXED:
		*enabled |= BIT_ULL(FIXED_BASE + i);
		*fixed |= FIXED_OS << (4 * i);
		return pmu_write(fixed_msr(i), 0);
	default:
		return 0;
	}
}

/* Start the counters of a checked set from zero, for ring 0 only; stop all others. */
int uops_pmu_program(const struct uops_counter_set *set)
{
	u64 enabled = 0, fixed = 0;
	int error = uops_registers_program(set);
	u32 i;

	if (error || uops_pmu.kind == UOPS_PMU_NONE)
		return error;
	if (stop_all())
		return -EIO;
	for (i = 0; i < set->num_counters; i++)
		if (program_one(&set->counters[i], &enabled, &fixed))
			return -EIO;
	if (fixed && pmu_write(MSR_CORE_PERF_FIXED_CTR_CTRL, fixed))
		return -EIO;
	return has_global() ? pmu_write(global_msr(), enabled) : 0;
}

/* The bits of a counter, to which differences of two reads are cut. */
u64 uops_pmu_mask(const struct uops_counter *counter)
{
	u32 width = 64;

	if (counter->kind == UOPS_COUNTER_PROG)
		width = uops_pmu.width_prog;
	else if (counter->kind == UOPS_COUNTER_FIXED)
		width = uops_pmu.width_fixed;
	else if (counter->kind == UOPS_COUNTER_MSR)
		width = uops_register_width(counter->index);
	return width && width < 64 ? GENMASK_ULL(width - 1, 0) : ~0ULL;
}
