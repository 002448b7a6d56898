// SPDX-License-Identifier: GPL-2.0
/*
 * Ends runs that do not end: a timer on another CPU looks at when the run
 * started. Over the limit it overwrites the blob with INT3, which is contained;
 * if that does not help (HLT, a loop outside the blob) it sends an NMI, whose
 * handler makes the interrupted CPU return to the exit of entry.S.
 *
 * uops_run.state is a sequence number and, in the low bits, UOPS_IDLE, _RUNNING,
 * _KILLING (poisoning is under way) or _KILLED. The running CPU moves it from
 * IDLE to RUNNING and back; only the timer moves it to KILLING and KILLED, and
 * the running CPU waits for it there.
 */
#include <linux/cpumask.h>
#include <linux/hrtimer.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/smp.h>
#include <linux/timekeeping.h>
#include <asm/apic.h>
#include <asm/nmi.h>
#include "compat.h"
#include "uopscope.h"

#define STATE_BITS	2
#define STATE_MASK	((1 << STATE_BITS) - 1)
#define MIN_PERIOD_NS	(1 * NSEC_PER_MSEC)
#define MAX_PERIOD_NS	(20 * NSEC_PER_MSEC)

static struct hrtimer timer;
static ktime_t period;
static bool started;
static u32 sequence;
static atomic_t nmi_sent;

static void kill_run(int running)
{
	int killing = (running & ~STATE_MASK) | UOPS_KILLING;

	if (atomic_cmpxchg(&uops_run.state, running, killing) != running)
		return;
	uops_code_poison();
	atomic_set_release(&uops_run.state, (running & ~STATE_MASK) | UOPS_KILLED);
}

/* One at a time: every NMI that is sent is claimed by on_nmi(). */
static void send_nmi(void)
{
	if (!uops_quiet_has_apic() || !READ_ONCE(uops_run.inside))
		return;
	if (atomic_xchg(&nmi_sent, 1))
		return;
	apic->send_IPI(uops_run.cpu, NMI_VECTOR);
}

static enum hrtimer_restart tick(struct hrtimer *unused)
{
	int now = atomic_read_acquire(&uops_run.state);
	u64 start = READ_ONCE(uops_run.started_ns);

	if ((now & STATE_MASK) == UOPS_RUNNING &&
	    ktime_get_mono_fast_ns() - start > READ_ONCE(uops_run.limit_ns))
		kill_run(now);
	else if ((now & STATE_MASK) == UOPS_KILLED)
		send_nmi();
	hrtimer_forward_now(&timer, period);
	return HRTIMER_RESTART;
}

/*
 * What the kernel's NMI entry returns by from kernel mode: a second copy of the
 * frame, just above pt_regs, which it rebuilds for nested NMIs (Linux
 * arch/x86/entry/entry_64.S, asm_exc_nmi). Changes to pt_regs are lost.
 */
struct return_frame {
	u64 ip, cs, flags, sp, ss;
};

static bool redirect(struct pt_regs *regs)
{
	struct return_frame *frame = (struct return_frame *)(regs + 1);

	if (frame->ip != regs->ip || frame->cs != regs->cs || frame->sp != regs->sp)
		return false;
	frame->flags = X86_EFLAGS_FIXED;
	frame->ip = (unsigned long)uops_exit_forced;
	return true;
}

/*
 * Only what the run's own CPU was doing in the blob is thrown away. With
 * interrupts on in the blob that may be an interrupt handler: leave that alone.
 */
static int on_nmi(unsigned int type, struct pt_regs *regs)
{
	u64 offset = regs->ip - uops_run.area;

	if (smp_processor_id() != uops_run.cpu || !atomic_xchg(&nmi_sent, 0))
		return NMI_DONE;
	if (!uops_run.inside || (!uops_run.strict && offset > UOPS_CODE_BYTES))
		return NMI_HANDLED;
	if (!redirect(regs))
		return NMI_HANDLED;
	uops_run.forced = 1;
	uops_run.vector = 2;
	uops_run.offset = offset > UOPS_CODE_BYTES ? UOPS_NO_OFFSET : offset;
	uops_run.rip = regs->ip;
	return NMI_HANDLED;
}

static void start_here(void *unused)
{
	hrtimer_start(&timer, period, HRTIMER_MODE_REL_PINNED_HARD);
}

int uops_guard_init(void)
{
	hrtimer_setup(&timer, tick, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	return register_nmi_handler(NMI_LOCAL, on_nmi, 0, "uopscope");
}

void uops_guard_exit(void)
{
	unregister_nmi_handler(NMI_LOCAL, "uopscope");
}

/* Needs another CPU than uops_run.cpu; CPUs neither come nor go meanwhile. */
int uops_guard_start(u64 min_limit_ns)
{
	int other = cpumask_any_but(cpu_online_mask, uops_run.cpu);

	if (other >= nr_cpu_ids)
		return -EOPNOTSUPP;
	period = ns_to_ktime(clamp_t(u64, min_limit_ns / 4, MIN_PERIOD_NS,
				     MAX_PERIOD_NS));
	started = true;
	return smp_call_function_single(other, start_here, NULL, 1);
}

void uops_guard_stop(void)
{
	if (started)
		hrtimer_cancel(&timer);
	started = false;
}

void uops_guard_enter(u64 limit_ns)
{
	sequence += 1 << STATE_BITS;
	uops_run.timed_out = 0;
	WRITE_ONCE(uops_run.limit_ns, limit_ns);
	WRITE_ONCE(uops_run.started_ns, ktime_get_mono_fast_ns());
	atomic_set_release(&uops_run.state, (int)(sequence | UOPS_RUNNING));
}

void uops_guard_leave(void)
{
	int running = (int)(sequence | UOPS_RUNNING);

	if (atomic_cmpxchg(&uops_run.state, running, UOPS_IDLE) == running)
		return;
	while ((atomic_read_acquire(&uops_run.state) & STATE_MASK) != UOPS_KILLED)
		cpu_relax();
	uops_run.timed_out = 1;
	atomic_set(&uops_run.state, UOPS_IDLE);
}
