// SPDX-License-Identifier: GPL-2.0
/*
 * Ends runs that do not end: a timer on another CPU looks at how long the run has
 * lasted. Over the limit, or soon when its task has a signal, it sends an NMI. Its
 * handler makes the interrupted CPU return to the exit of entry.S. NMIs may have no
 * effect: the blob has switched the local APIC off, or a kernel returns from them in
 * another way. After PATIENCE_NS the timer overwrites the blob with INT3, which
 * is contained.
 *
 * INT3 is the second choice since the other CPU may be fetching what is written:
 * half of a jump and half of INT3 lead anywhere. So it is written one byte after
 * another from the beginning, with a pause between. What is being fetched when its
 * first byte changes has been fetched before the next byte changes. Of a loop the
 * instruction that comes first in memory is hit first, at its first byte.
 * At the end it begins again, for as long as the run lasts. An emulator may have read
 * the code just before it was written, and go on with its translation (seen with QEMU
 * 7.2). The next write ends that.
 *
 * uops_run.state is a sequence number and, in the low bits, UOPS_IDLE, _RUNNING,
 * _KILLING (the timer is doing it) or _KILLED. The running CPU moves it from IDLE
 * to RUNNING and back; only the timer moves it to KILLING and on to KILLED, each
 * time that it tries. The running CPU leaves from KILLED, never from KILLING: so
 * nothing is sent or written for a run that is over.
 */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/sched/isolation.h>
#include <linux/sched/signal.h>
#include <linux/smp.h>
#include <linux/timekeeping.h>
#include <linux/topology.h>
#include <asm/apic.h>
#include <asm/nmi.h>
#include "compat.h"
#include "uopscope.h"

#define STATE_BITS	2
#define STATE_MASK	((1 << STATE_BITS) - 1)
#define MIN_PERIOD_NS	(1 * NSEC_PER_MSEC)
#define MAX_PERIOD_NS	(20 * NSEC_PER_MSEC)
#define PATIENCE_NS	(500 * NSEC_PER_MSEC)
#define CLAIM_NS	(10 * NSEC_PER_MSEC)
/* Ctrl-C ends a batch within 100 ms: this, a period of 20 ms, and the way out */
#define SIGNAL_NS	(50 * NSEC_PER_MSEC)
/* 1 MiB takes a second, a quarter of the timer's CPU at its shortest period */
#define POISON_BYTES	1000	/* per tick */
#define POISON_PAUSE_NS	250	/* longer than a fetch takes */

bool uops_use_nmi = true;

static struct hrtimer timer;
static ktime_t period;
static struct task_struct *task;	/* that is in the batch */
static bool started;
static u32 sequence;
static atomic_t nmi_sent;

/* The timer's own, about one run. */
static struct {
	u32 sequence;
	u64 last_ns;	/* when it looked last */
	u64 spent_ns;	/* that the run has lasted */
	u64 killed_ns;	/* spent_ns at the first attempt */
	u32 poisoned;	/* bytes */
	bool sent;
} watch;

/* One at a time: every NMI that is sent is claimed by on_nmi(). */
static void send_nmi(void)
{
	if (atomic_xchg(&nmi_sent, 1) && watch.sent)
		return;
	watch.sent = true;
	apic->send_IPI(uops_run.cpu, NMI_VECTOR);
}

static void poison_some(void)
{
	u32 end = watch.poisoned + POISON_BYTES;

	while (watch.poisoned < end && READ_ONCE(uops_run.inside)) {
		if (!uops_code_poison(watch.poisoned)) {
			watch.poisoned = 0;
			return;
		}
		ndelay(POISON_PAUSE_NS);
		watch.poisoned++;
	}
}

/* What is not in the blob yet, or on its way out, needs nothing. */
static void kill_run(int now)
{
	int killing = (now & ~STATE_MASK) | UOPS_KILLING;

	if (atomic_cmpxchg(&uops_run.state, now, killing) != now)
		return;
	if (!watch.killed_ns)
		watch.killed_ns = watch.spent_ns;
	if (READ_ONCE(uops_run.inside)) {
		if (uops_use_nmi && uops_quiet_has_apic() &&
		    watch.spent_ns - watch.killed_ns < PATIENCE_NS)
			send_nmi();
		else
			poison_some();
	}
	atomic_set_release(&uops_run.state, (now & ~STATE_MASK) | UOPS_KILLED);
}

/*
 * Add the time that has passed since the last look, but not much more than a period.
 * In a virtual machine this CPU may have stood still, and so may the other one.
 */
static void look(int now)
{
	u64 time = ktime_get_mono_fast_ns();
	u64 start = READ_ONCE(uops_run.started_ns);

	if ((now & ~STATE_MASK) != watch.sequence) {
		watch.sequence = now & ~STATE_MASK;
		watch.last_ns = start;
		watch.spent_ns = 0;
		watch.killed_ns = 0;
		watch.poisoned = 0;
		watch.sent = false;
	}
	watch.spent_ns += min_t(u64, time - min(time, watch.last_ns),
				2 * ktime_to_ns(period));
	watch.last_ns = time;
}

static bool is_over(void)
{
	if (watch.spent_ns > READ_ONCE(uops_run.limit_ns))
		return true;
	return watch.spent_ns > SIGNAL_NS && signal_pending(task);
}

static enum hrtimer_restart tick(struct hrtimer *unused)
{
	int now = atomic_read_acquire(&uops_run.state);

	if ((now & STATE_MASK) != UOPS_IDLE) {
		look(now);
		if ((now & STATE_MASK) == UOPS_KILLED || is_over())
			kill_run(now);
	}
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

static bool is_killed(void)
{
	return (atomic_read(&uops_run.state) & STATE_MASK) >= UOPS_KILLING;
}

/*
 * Only what the run's own CPU was doing in the blob is thrown away. With
 * interrupts on in the blob that may be an interrupt handler: leave that alone.
 * An NMI that comes late, when the next run is under way, is claimed and no more.
 *
 * A second one leads to the exit again: the first one's way there is lost where an
 * NMI nested in it returned by the older frame. What it found stays in the report.
 */
static int on_nmi(unsigned int type, struct pt_regs *regs)
{
	u64 offset = regs->ip - uops_run.area;

	if (smp_processor_id() != uops_run.cpu || !atomic_xchg(&nmi_sent, 0))
		return NMI_DONE;
	if (!is_killed() || !uops_run.inside ||
	    (!uops_run.strict && offset > UOPS_CODE_BYTES))
		return NMI_HANDLED;
	if (!redirect(regs) || uops_run.forced)
		return NMI_HANDLED;
	WRITE_ONCE(uops_run.forced, 1);
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

/* The best CPU for the timer among some, or nr_cpu_ids. */
static int first_other(const struct cpumask *from, const struct cpumask *avoided, int cpu)
{
	int other;

	for_each_cpu_and(other, from, cpu_online_mask)
		if (other != cpu && !(avoided && cpumask_test_cpu(other, avoided)))
			return other;
	return nr_cpu_ids;
}

/*
 * Returns the CPU whose timer watches over runs on a CPU. It is not isolated
 * (isolcpus=, nohz_full=), if there is such a one. Only if there is no other, it is a
 * sibling, whose work shows in the measurements. nr_cpu_ids: there is none at all.
 */
int uops_guard_cpu(int cpu)
{
	const struct cpumask *housekeeping = housekeeping_cpumask(HK_TYPE_TIMER);
	const struct cpumask *siblings = topology_sibling_cpumask(cpu);
	int other = first_other(housekeeping, siblings, cpu);

	if (other >= nr_cpu_ids)
		other = first_other(cpu_online_mask, siblings, cpu);
	if (other >= nr_cpu_ids)
		other = first_other(cpu_online_mask, NULL, cpu);
	return other;
}

/* Needs another CPU than uops_run.cpu; CPUs neither come nor go meanwhile. */
int uops_guard_start(u64 min_limit_ns)
{
	int other = uops_guard_cpu(uops_run.cpu);

	if (other >= nr_cpu_ids)
		return -EOPNOTSUPP;
	task = current;
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

/* Wait for the NMI that was sent, at most CLAIM_NS, so that the next run does not get it. */
static void await_nmi(void)
{
	u64 start = ktime_get_mono_fast_ns();

	while (atomic_read(&nmi_sent) && ktime_get_mono_fast_ns() - start < CLAIM_NS)
		cpu_relax();
}

void uops_guard_leave(void)
{
	int running = (int)(sequence | UOPS_RUNNING);
	int killed = (int)(sequence | UOPS_KILLED);

	if (atomic_cmpxchg(&uops_run.state, running, UOPS_IDLE) == running)
		return;
	while (atomic_cmpxchg(&uops_run.state, killed, UOPS_IDLE) != killed)
		cpu_relax();
	uops_run.timed_out = 1;
	await_nmi();
}
