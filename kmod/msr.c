// SPDX-License-Identifier: GPL-2.0
/*
 * The only places where the PMU is touched, and where the CPU is asked what it is:
 * real functions, so that they can be probed.
 */
#include <asm/processor.h>
#include <asm/tlbflush.h>
#include "compat.h"
#include "uopscope.h"

noinline int uops_rdmsr(u32 msr, u64 *value)
{
	return rdmsrq_safe(msr, value);
}

noinline int uops_wrmsr(u32 msr, u64 value)
{
	return wrmsrq_safe(msr, value);
}

noinline void uops_cpuid(u32 leaf, u32 subleaf, u32 regs[4])
{
	cpuid_count(leaf, subleaf, &regs[0], &regs[1], &regs[2], &regs[3]);
}

noinline unsigned long uops_cr4(void)
{
	return __read_cr4();
}

noinline u32 uops_vendor(void)
{
	return boot_cpu_data.x86_vendor;
}
