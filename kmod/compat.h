/* SPDX-License-Identifier: GPL-2.0 */
/* What differs between kernel versions, and nothing else. */
#ifndef UOPSCOPE_COMPAT_H
#define UOPSCOPE_COMPAT_H

#include <linux/version.h>

#ifdef __ASSEMBLY__

#include <linux/objtool.h>
#include <asm/unwind_hints.h>

#if KERNEL_VERSION(6, 4, 0) > LINUX_VERSION_CODE
#define UNWIND_HINT_END_OF_STACK UNWIND_HINT_EMPTY
#endif

#else

#include <linux/hrtimer.h>
#include <asm/msr.h>

#if KERNEL_VERSION(6, 13, 0) > LINUX_VERSION_CODE
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *),
				 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#endif

#if KERNEL_VERSION(6, 16, 0) > LINUX_VERSION_CODE
#define rdmsrq(msr, value)	rdmsrl(msr, value)
#define rdmsrq_safe(msr, value)	rdmsrl_safe(msr, value)
#define wrmsrq_safe(msr, value)	wrmsrl_safe(msr, value)
#else
#include <asm/cpuid/api.h>
#endif

#endif /* __ASSEMBLY__ */

#endif /* UOPSCOPE_COMPAT_H */
