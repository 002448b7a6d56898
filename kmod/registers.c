// SPDX-License-Identifier: GPL-2.0
/*
 * Registers beside the core's counters: what some events need, and counters outside of
 * the core. A set of counters says what to write. That is written when the set is
 * programmed. The old values come back when another set is programmed, or the batch
 * ends. CPUs differ in these registers. A job that needs a missing one is refused.
 *
 * Sources: Intel SDM volume 3, 15.10 (energy), 20.3 and 20.7 (off-core responses, load
 * latency, front end, uncore) and volume 4; Intel's uncore performance monitoring
 * guides (327043, 329468, 331051, 336274, 639778); Linux, arch/x86/events/intel/
 * uncore_*.c and arch/x86/events/amd/uncore.c; AMD PPR for family 19h, 2.1.15 (L3, data
 * fabric) and MSRC001_029A. Ranges leave out what lies between them: HWP (0x770), cache
 * allocation (0xc80 and 0xd10), IA32_XSS (0xda0), the core's counters (0x1900).
 */
#include <linux/errno.h>
#include <linux/kernel.h>
#include <asm/cpufeature.h>
#include <asm/msr-index.h>
#include <asm/processor.h>
#include "uopscope.h"

#define ALL_BITS	64
#define ENERGY_BITS	32
#define UNCORE_BITS	48

static const struct registers {
	u32 first, last;
	bool without_allocation;	/* the same numbers are cache allocation's elsewhere */
} intel[] = {
	{ 0x1a6, 0x1a7 },		/* off-core responses */
	{ 0x3f6, 0x3f7 },		/* load latency, front end */
	{ 0x391, 0x396 },		/* uncore of client CPUs: global, fixed counter */
	{ 0x3b0, 0x3b7 },		/* counters of Nehalem's, arbiter's of later ones */
	{ 0x3c0, 0x3c7 },
	{ 0x700, 0x76f },		/* C-boxes of client CPUs; of server CPUs U, PCU, S */
	{ 0xa40, 0xbff },		/* I/O stacks */
	{ 0xc00, 0xc3f },		/* U-box and PCU of Sandy Bridge and Ivy Bridge */
	{ 0xd00, 0xd9f, true },		/* their C-boxes */
	{ 0xda1, 0xdff, true },
	{ 0xe00, 0xfff },		/* C-boxes and CHAs; 0xe01: global, of Skylake clients */
	{ 0x1c00, 0x1fff },		/* CHAs of Tremont servers */
	{ 0x2000, 0x2fff },		/* CHAs from Sapphire Rapids, C-boxes from Alder Lake on */
	{ 0x3000, 0x3fff },		/* their I/O stacks */
}, amd[] = {
	{ 0xc0010230, 0xc001023b },	/* L3 */
	{ 0xc0010240, 0xc001024f },	/* data fabric */
};

/* Energy in units of a package's choice, in 32 bits. */
static const u32 energy[] = {
	0x611, 0x619, 0x639, 0x641, 0x64d, 0xc001029a, 0xc001029b,
};

static struct uops_write saved[UOPS_MAX_WRITES];
static u32 num_saved;

static bool is_in(u32 msr, const struct registers *ranges, size_t count)
{
	bool allocation = boot_cpu_has(X86_FEATURE_RDT_A);
	size_t i;

	for (i = 0; i < count; i++)
		if (msr >= ranges[i].first && msr <= ranges[i].last &&
		    !(ranges[i].without_allocation && allocation))
			return true;
	return false;
}

static bool may_write(u32 msr)
{
	if (uops_vendor() == X86_VENDOR_INTEL)
		return is_in(msr, intel, ARRAY_SIZE(intel));
	return is_in(msr, amd, ARRAY_SIZE(amd));
}

/* Width in bits of what a register counts. */
u32 uops_register_width(u32 msr)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(energy); i++)
		if (msr == energy[i])
			return ENERGY_BITS;
	return may_write(msr) ? UNCORE_BITS : ALL_BITS;
}

int uops_registers_check(const struct uops_counter_set *set)
{
	u32 i;

	if (set->num_writes > UOPS_MAX_WRITES || set->reserved)
		return -EINVAL;
	for (i = 0; i < set->num_writes; i++) {
		if (set->writes[i].reserved)
			return -EINVAL;
		if (!may_write(set->writes[i].msr))
			return -EPERM;
	}
	return 0;
}

/* In the opposite order: a register may have been written twice. */
void uops_registers_restore(void)
{
	while (num_saved) {
		num_saved--;
		uops_wrmsr(saved[num_saved].msr, saved[num_saved].value);
	}
}

/* Write those of a checked set, instead of those of the set before. */
int uops_registers_program(const struct uops_counter_set *set)
{
	u32 i;

	uops_registers_restore();
	for (i = 0; i < set->num_writes; i++) {
		const struct uops_write *write = &set->writes[i];

		saved[i].msr = write->msr;
		if (uops_rdmsr(write->msr, &saved[i].value))
			return -ENODEV;
		num_saved++;
		if (uops_wrmsr(write->msr, write->value))
			return -ENODEV;
	}
	return 0;
}
