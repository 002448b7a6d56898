// SPDX-License-Identifier: GPL-2.0
/*
 * Settings of the kernel that would change what is measured. They are cleared while
 * the blob runs, and put back after it.
 *
 * - IA32_SPEC_CTRL: with IBRS, SSBD and the like indirect branches and loads take
 *   longer in ring 0 than in programs.
 * - IA32_XFD: Linux arms it, so that the first AMX instruction of a task traps.
 *   What the blob left in the tiles is released before it is armed again.
 *
 * Sources: Intel SDM volume 1, 13.14 (extended feature disable), volume 2
 * (TILERELEASE), volume 4 (MSRs); AMD APM volume 2, 3.2.9 (SPEC_CTRL).
 */
#include <linux/build_bug.h>
#include <linux/kernel.h>
#include <asm/cpufeature.h>
#include <asm/fpu/xcr.h>
#include <asm/msr-index.h>
#include <asm/processor-flags.h>
#include "compat.h"
#include "uopscope.h"

#define XCR0		0
#define XCR0_TILES	(BIT_ULL(17) | BIT_ULL(18))

static const struct {
	u32 msr;
	u64 feature;
} list[] = {
	{ MSR_IA32_SPEC_CTRL, UOPS_FEATURE_SPEC_CTRL },
	{ MSR_IA32_XFD, UOPS_FEATURE_XFD },
};

static bool present[ARRAY_SIZE(list)];
static bool has_tiles;

/* Before a batch, on its CPU. Returns the features that were found. */
u64 uops_adjust_prepare(void)
{
	u64 value, features = 0;
	size_t i;

	BUILD_BUG_ON(ARRAY_SIZE(list) != ARRAY_SIZE(((struct uops_adjusted *)0)->saved));
	has_tiles = boot_cpu_has(X86_FEATURE_AMX_TILE) &&
		    (__read_cr4() & X86_CR4_OSXSAVE) &&
		    (xgetbv(XCR0) & XCR0_TILES) == XCR0_TILES;
	for (i = 0; i < ARRAY_SIZE(list); i++) {
		present[i] = !uops_rdmsr(list[i].msr, &value);
		if (present[i])
			features |= list[i].feature;
	}
	return features;
}

void uops_adjust_begin(struct uops_adjusted *adjusted)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(list); i++) {
		adjusted->set[i] = 0;
		adjusted->saved[i] = 0;
		if (!present[i] || uops_rdmsr(list[i].msr, &adjusted->saved[i]) ||
		    !adjusted->saved[i])
			continue;
		if (uops_wrmsr(list[i].msr, 0))
			adjusted->set[i] = adjusted->saved[i];
	}
}

static void release_tiles(void)
{
	/* TILERELEASE; older assemblers do not know it */
	asm volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0xc0" : : : "memory");
}

/* True if the blob had written one of them. XCR0 is what it was again. */
bool uops_adjust_end(const struct uops_adjusted *adjusted)
{
	bool changed = false;
	u64 value;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(list); i++) {
		if (!present[i] || uops_rdmsr(list[i].msr, &value))
			continue;
		changed |= value != adjusted->set[i];
		if (list[i].msr == MSR_IA32_XFD && has_tiles) {
			if (value)
				uops_wrmsr(MSR_IA32_XFD, 0);
			release_tiles();
			value = 0;
		}
		if (value != adjusted->saved[i])
			uops_wrmsr(list[i].msr, adjusted->saved[i]);
	}
	return changed;
}
