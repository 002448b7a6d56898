// SPDX-License-Identifier: GPL-2.0
/*
 * Interrupts a run at a random time, and says where.
 *
 * While it runs interrupts are on, with the local APIC's vector table masked but for
 * its timer, which counts down once from a number that is drawn. The first interrupt
 * ends the run (entry.S), whatever it is: so no handler of the kernel's runs on what
 * the blob has left of stack and GS base. After the run the state is the kernel's
 * again. Then the timer's interrupt is acknowledged. Any other one is acknowledged and
 * sent to this CPU again, unless its pin is still asserted: then it comes by itself.
 *
 * The vector is that of the kernel's own timer. So if it comes after the run, the
 * kernel finds that no timer of its own has expired.
 *
 * The timer's own step may be as long as a hundred cycles (24 MHz). So the blob is
 * entered after a second delay, which is drawn in steps of a cycle or so.
 *
 * Source: Intel SDM volume 3, 11.5.4 (timer) and 11.8.4 (interrupts in service).
 */
#include <linux/ktime.h>
#include <linux/minmax.h>
#include <linux/random.h>
#include <linux/timekeeping.h>
#include <asm/apic.h>
#include <asm/irq_vectors.h>
#include "uopscope.h"

#define CALIBRATION_NS	(100 * NSEC_PER_USEC)
#define STEPS		256

static u64 ticks_per_second;	/* of the timer; 0: not known yet */

/* For the next run. */
static struct {
	u64 delay_ns;
	u32 steps;
} drawn;

int uops_sample_check(const struct uops_batch *batch, const struct uops_job *job)
{
	if (job->flags != UOPS_JOB_INTERRUPT || job->value ||
	    job->delay_ns < UOPS_MIN_DELAY_NS || job->delay_ns > UOPS_MAX_DELAY_NS)
		return -EINVAL;
	if (batch->flags & UOPS_BATCH_MASK_LVT || !uops_quiet_has_apic())
		return -EOPNOTSUPP;
	return 0;
}

/* Below a limit, evenly. */
static u32 draw(u32 limit)
{
	return ((u64)get_random_u32() * limit) >> 32;
}

/* With interrupts on: random numbers are behind a lock, which may sleep (PREEMPT_RT). */
void uops_sample_draw(u64 delay_ns)
{
	drawn.delay_ns = delay_ns + draw(delay_ns);
	drawn.steps = draw(STEPS);
}

static void take_timer(u32 masked)
{
	apic->write(APIC_LVTT, LOCAL_TIMER_VECTOR | APIC_LVT_TIMER_ONESHOT | masked);
	apic->write(APIC_TDCR, APIC_TDR_DIV_1);
}

static u64 measure_ticks(void)
{
	u64 start = ktime_get_mono_fast_ns(), passed;

	apic->write(APIC_TMICT, U32_MAX);
	do {
		passed = ktime_get_mono_fast_ns() - start;
	} while (passed < CALIBRATION_NS);
	return (U32_MAX - apic->read(APIC_TMCCT)) * (u64)NSEC_PER_SEC / passed;
}

/* The vector table is masked, and interrupts are off. */
void uops_sample_begin(struct uops_quiet *quiet)
{
	quiet->timer_taken = true;
	quiet->divide = apic->read(APIC_TDCR);
	take_timer(APIC_LVT_MASKED);
	if (!ticks_per_second)
		ticks_per_second = measure_ticks();
	apic->write(APIC_TMICT, 0);
}

/* Just before the blob. */
void uops_sample_arm(void)
{
	u64 ticks = drawn.delay_ns * ticks_per_second / NSEC_PER_SEC;
	u32 steps = drawn.steps;

	take_timer(0);
	apic->write(APIC_TMICT, clamp_t(u64, ticks, 1, U32_MAX));
	while (steps--)
		barrier();
}

static bool is_set(u32 registers, u32 vector)
{
	return apic->read(registers + vector / 32 * 0x10) & BIT(vector % 32);
}

/*
 * Acknowledge what has ended the run. False: that was no interrupt, but INT n or an
 * exception, or the local APIC does not know of it.
 */
static bool serve(u32 vector)
{
	bool is_level;

	if (vector < FIRST_EXTERNAL_VECTOR || !is_set(APIC_ISR, vector))
		return false;
	is_level = is_set(APIC_TMR, vector);
	apic->write(APIC_EOI, 0);
	if (vector != LOCAL_TIMER_VECTOR && !is_level)
		apic->send_IPI_self(vector);
	return true;
}

/* After the run, with the kernel's state back and interrupts off. */
void uops_sample_end(struct uops_quiet *quiet)
{
	bool interrupted = uops_run.faulted && !uops_run.forced && serve(uops_run.vector);

	uops_run.landed = UOPS_NO_OFFSET;
	if (interrupted) {
		uops_run.faulted = 0;
		if (uops_run.vector == LOCAL_TIMER_VECTOR &&
		    uops_run.offset < UOPS_CODE_BYTES)
			uops_run.landed = uops_run.offset;
	}
	apic->write(APIC_LVTT, LOCAL_TIMER_VECTOR | APIC_LVT_MASKED);
	apic->write(APIC_TMICT, 0);
	apic->write(APIC_TDCR, quiet->divide);
}
