// SPDX-License-Identifier: GPL-2.0
/*
 * Keeps the other threads of a core idle: on each, a thread of the highest priority
 * does what the idle task does, in the deepest state that the CPU has. There the
 * core's units and buffers belong to the thread that is measured. Interrupts still
 * arrive, and Linux gives other tasks up to 5% of the time (sched_rt_runtime_us).
 *
 * CPUs neither come nor go between begin and end.
 */
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/time64.h>
#include <linux/topology.h>
#include "uopscope.h"

#define MAX_SIBLINGS	7
/* Long beside the way in and out, short beside a slice, whose end waits for it. */
#define IDLE_NS		(2 * NSEC_PER_MSEC)

static struct task_struct *parked[MAX_SIBLINGS];
static u32 count;

static int stay_idle(void *unused)
{
	sched_set_fifo(current);
	while (!kthread_should_stop())
		play_idle_precise(IDLE_NS, U64_MAX);
	return 0;
}

static int park(int cpu)
{
	struct task_struct *task;

	if (count == MAX_SIBLINGS)
		return -E2BIG;
	task = kthread_create_on_cpu(stay_idle, NULL, cpu, "uopscope/%u");
	if (IS_ERR(task))
		return PTR_ERR(task);
	parked[count++] = task;
	wake_up_process(task);
	return 0;
}

int uops_park_begin(int cpu)
{
	int other, error = 0;

	for_each_cpu_and(other, topology_sibling_cpumask(cpu), cpu_online_mask)
		if (other != cpu && !error)
			error = park(other);
	return error;
}

void uops_park_end(void)
{
	while (count)
		kthread_stop(parked[--count]);
}
