// SPDX-License-Identifier: GPL-2.0
/*
 * A batch: checked as a whole first, then job by job. What is wrong with one job
 * is that job's result; what is wrong with the batch is the ioctl's errno.
 */
#include <linux/cpu.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/preempt.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <asm/fpu/api.h>
#include <asm/msr-index.h>
#include "uopscope.h"

static struct uops_areas areas;
static struct uops_counter_set *sets;
static u64 *samples;		/* of one job */

/* A blob starts with its literal, and there is something to enter. */
#define MIN_CODE_BYTES	9
#define NO_SET		U32_MAX
/* After this time a batch lets CPUs go offline and perf have its counters. */
#define SLICE_NS	(100 * NSEC_PER_MSEC)

int uops_batch_init(void)
{
	samples = vmalloc(array3_size(UOPS_MAX_REPETITIONS, UOPS_MAX_COUNTERS,
				      sizeof(u64)));
	return samples ? 0 : -ENOMEM;
}

void uops_batch_exit(void)
{
	vfree(samples);
	samples = NULL;
}

/* The device was closed. */
void uops_batch_close(void)
{
	uops_areas_free(&areas);
	uops_demand_clear();
	uops_code_clear();
}

static int check_batch(const struct uops_batch *batch)
{
	if (batch->flags & ~UOPS_BATCH_FLAGS || batch->reserved0 ||
	    batch->jobs_done > batch->num_jobs ||
	    memchr_inv(batch->reserved, 0, sizeof(batch->reserved)))
		return -EINVAL;
	if (batch->r14_bytes % UOPS_R14_STEP)
		return -EINVAL;
	if (batch->r14_bytes > UOPS_MAX_R14_BYTES ||
	    batch->num_jobs > UOPS_MAX_JOBS || batch->num_sets > UOPS_MAX_SETS ||
	    batch->code_bytes > U32_MAX || batch->num_samples > U32_MAX)
		return -E2BIG;
	if (batch->flags & UOPS_BATCH_MASK_LVT && !uops_quiet_has_apic())
		return -EOPNOTSUPP;
	return uops_contain_possible();
}

static int check_flags(const struct uops_batch *batch, const struct uops_job *job)
{
	if (job->flags & ~UOPS_JOB_FLAGS)
		return -EINVAL;
	if (job->flags & UOPS_JOB_INTERRUPT)
		return uops_sample_check(batch, job);
	if (job->delay_ns)
		return -EINVAL;
	if (!(job->flags & UOPS_JOB_ON_DEMAND))
		return job->flags || job->value ? -EINVAL : 0;
	return batch->flags & UOPS_BATCH_MASK_LVT ? -EOPNOTSUPP : 0;
}

static int check_job(const struct uops_batch *batch, const struct uops_job *job)
{
	if (job->size != sizeof(*job))
		return -EINVAL;
	if (job->set >= batch->num_sets)
		return -EINVAL;
	if (job->code_bytes < MIN_CODE_BYTES || job->code_bytes > UOPS_CODE_BYTES ||
	    (u64)job->code_offset + job->code_bytes > batch->code_bytes)
		return -EINVAL;
	if (!job->repetitions || job->repetitions > UOPS_MAX_REPETITIONS ||
	    job->warm_ups > UOPS_MAX_WARM_UPS ||
	    job->iterations > UOPS_MAX_ITERATIONS)
		return -EINVAL;
	if (job->time_limit_ns < UOPS_MIN_TIME_NS ||
	    job->time_limit_ns > UOPS_MAX_TIME_NS)
		return -EINVAL;
	return check_flags(batch, job);
}

static u32 samples_each(const struct uops_job *job)
{
	if (job->flags & UOPS_JOB_INTERRUPT)
		return UOPS_INTERRUPT_SAMPLES;
	return sets[job->set].num_counters;
}

static int check_samples(const struct uops_batch *batch, const struct uops_job *job)
{
	u64 count = (u64)job->repetitions * samples_each(job);

	if (job->sample_offset > batch->num_samples ||
	    count > batch->num_samples - job->sample_offset)
		return -ENOSPC;
	return 0;
}

static void run_once(const struct uops_batch *batch, const struct uops_job *job)
{
	struct uops_quiet quiet;
	u64 before;

	if (uops_run.sampled)
		uops_sample_draw(job->delay_ns);
	kernel_fpu_begin_mask(KFPU_387 | KFPU_MXCSR);
	before = ktime_get_mono_fast_ns();
	uops_quiet_begin(&quiet, batch->flags & UOPS_BATCH_MASK_LVT || uops_run.sampled);
	if (uops_run.sampled)
		uops_sample_begin(&quiet);
	uops_guard_enter(job->time_limit_ns);
	uops_contain_run();
	uops_guard_leave();
	if (uops_run.sampled)
		uops_sample_end(&quiet);
	uops_quiet_end(&quiet);
	uops_run.quiet_ns = ktime_get_mono_fast_ns() - before;
	kernel_fpu_end();
}

static void report_fault(struct uops_result *result)
{
	result->vector = uops_run.vector;
	result->error_code = uops_run.error_code;
	result->offset = uops_run.offset;
	if (result->offset > UOPS_CODE_BYTES + PAGE_SIZE)	/* before the blob */
		result->offset = UOPS_NO_OFFSET;
	if (uops_run.vector == 14)
		result->address = uops_run.cr2;
	else if (result->offset == UOPS_NO_OFFSET)
		result->address = uops_run.rip;
}

/* True if the job may go on. */
static bool take_run(struct uops_result *result)
{
	result->blob_ns += uops_run.blob_ns;
	result->max_quiet_ns = max(result->max_quiet_ns, uops_run.quiet_ns);
	result->changed |= uops_run.changed;
	if (uops_run.faulted)
		report_fault(result);
	if (uops_run.timed_out || uops_run.forced)
		result->status = UOPS_STATUS_TIME_OUT;
	else if (uops_run.faulted)
		result->status = UOPS_STATUS_FAULT;
	else if (uops_run.changed & (UOPS_CHANGED_IF | UOPS_CHANGED_STACK))
		result->status = UOPS_STATUS_STATE;
	else
		return true;
	return false;
}

static void take_counters(const struct uops_counter_set *set, u32 repetition)
{
	const u64 *start = areas.context + UOPS_CTX_START;
	const u64 *end = areas.context + UOPS_CTX_END;
	u64 *to = samples + (size_t)repetition * set->num_counters;
	u32 i;

	for (i = 0; i < set->num_counters; i++)
		to[i] = (end[i] - start[i]) & uops_pmu_mask(&set->counters[i]);
}

static void take_samples(const struct uops_job *job, u32 repetition)
{
	u64 *to = samples + (size_t)repetition * UOPS_INTERRUPT_SAMPLES;

	if (!uops_run.sampled) {
		take_counters(&sets[job->set], repetition);
		return;
	}
	to[0] = uops_run.landed;
	to[1] = uops_run.r15;
}

static u64 smi_count(void)
{
	u64 count = 0;

	if (uops_pmu.features & UOPS_FEATURE_SMI_COUNT)
		uops_rdmsr(MSR_SMI_COUNT, &count);
	return count;
}

/* Add what has passed since the last call to one half of the job. */
static void count_clocks(struct uops_result *result, u64 last[2], int half)
{
	u64 now[2] = {};

	if (!(uops_pmu.features & UOPS_FEATURE_APERFMPERF) ||
	    uops_rdmsr(UOPS_MSR_APERF, &now[0]) || uops_rdmsr(UOPS_MSR_MPERF, &now[1]))
		return;
	if (half >= 0) {
		result->aperf[half] = now[0] - last[0];
		result->mperf[half] = now[1] - last[1];
	}
	memcpy(last, now, sizeof(now));
}

/* Run the code once; with memory on demand, again after each page that was lacking. */
static int run_whole(const struct uops_batch *batch, const struct uops_job *job)
{
	do {
		if (signal_pending(current))
			return -EINTR;
		uops_areas_fill(&areas, job, &sets[job->set]);
		run_once(batch, job);
		cond_resched();
	} while (job->flags & UOPS_JOB_ON_DEMAND && uops_demand_serve());
	return 0;
}

static int run_repetitions(const struct uops_batch *batch, const struct uops_job *job,
			   struct uops_result *result)
{
	u64 clocks[2], smis = smi_count();
	u32 i;

	result->status = UOPS_STATUS_OK;
	uops_areas_clean(&areas);
	count_clocks(result, clocks, -1);
	for (i = 0; i < job->warm_ups + job->repetitions; i++) {
		if (i == (job->warm_ups + job->repetitions) / 2)
			count_clocks(result, clocks, 0);
		if (run_whole(batch, job))
			return -EINTR;
		if (!take_run(result))
			return uops_run.timed_out && signal_pending(current) ? -EINTR : 0;
		if (i >= job->warm_ups)
			take_samples(job, result->repetitions++);
	}
	count_clocks(result, clocks, 1);
	result->smis = smi_count() - smis;
	return 0;
}

static int copy_samples(const struct uops_batch *batch, const struct uops_job *job,
			const struct uops_result *result)
{
	u64 __user *to = u64_to_user_ptr(batch->samples);
	size_t count = (size_t)result->repetitions * samples_each(job);

	if (copy_to_user(to + job->sample_offset, samples, count * sizeof(u64)))
		return -EFAULT;
	return 0;
}

/* Errors that are the job's own are in result->error; the return value is the batch's. */
static int run_job(const struct uops_batch *batch, const struct uops_job *job,
		   struct uops_result *result, u32 *programmed)
{
	int error = check_job(batch, job);

	result->status = UOPS_STATUS_REFUSED;
	if (!error)
		error = uops_pmu_check(&sets[job->set]);
	if (!error)
		error = check_samples(batch, job);
	if (!error && *programmed != job->set) {
		error = uops_pmu_program(&sets[job->set]);
		*programmed = error ? NO_SET : job->set;
	}
	if (!error && job->flags & UOPS_JOB_ON_DEMAND)
		error = uops_demand_begin(job);
	if (error) {
		result->error = error;
		return 0;
	}
	error = uops_code_install(batch->code + job->code_offset, job->code_bytes,
				  (unsigned long)areas.context);
	if (error)
		return error;
	uops_code_place(job->flags & UOPS_JOB_ON_DEMAND);
	uops_contain_sample(job->flags & UOPS_JOB_INTERRUPT);
	error = run_repetitions(batch, job, result);
	uops_code_place(false);
	uops_contain_sample(false);
	if (job->flags & UOPS_JOB_ON_DEMAND)
		result->pages = uops_demand_pages();
	return error ?: copy_samples(batch, job, result);
}

static int run_next(struct uops_batch *batch, u32 *programmed)
{
	struct uops_job __user *jobs = u64_to_user_ptr(batch->jobs);
	struct uops_result __user *results = u64_to_user_ptr(batch->results);
	struct uops_result result = { .size = sizeof(result),
				      .offset = UOPS_NO_OFFSET };
	u64 before = ktime_get_mono_fast_ns();
	struct uops_job job;
	int error;

	if (copy_from_user(&job, jobs + batch->jobs_done, sizeof(job)))
		return -EFAULT;
	error = run_job(batch, &job, &result, programmed);
	if (error)
		return error;
	result.elapsed_ns = ktime_get_mono_fast_ns() - before;
	if (copy_to_user(results + batch->jobs_done, &result, sizeof(result)))
		return -EFAULT;
	batch->jobs_done++;
	return 0;
}

/* Jobs until there are no more, or the slice is over. */
static int run_jobs(struct uops_batch *batch)
{
	u64 start = ktime_get_mono_fast_ns();
	u32 programmed = NO_SET;
	int error = 0;

	while (!error && batch->jobs_done < batch->num_jobs) {
		error = run_next(batch, &programmed);
		if (ktime_get_mono_fast_ns() - start > SLICE_NS)
			break;
	}
	return error;
}

static int run_programmed(struct uops_batch *batch)
{
	int error = uops_pmu_reserve();

	if (error)
		return error;
	error = run_jobs(batch);
	uops_pmu_release();
	return error;
}

static int run_parked(struct uops_batch *batch)
{
	int error;

	if (!(batch->flags & UOPS_BATCH_PARK))
		return run_programmed(batch);
	error = uops_park_begin(uops_run.cpu);
	if (!error)
		error = run_programmed(batch);
	uops_park_end();
	return error;
}

static int run_guarded(struct uops_batch *batch)
{
	int error = uops_guard_start(UOPS_MIN_TIME_NS * 8);

	if (error == -EOPNOTSUPP && batch->flags & UOPS_BATCH_UNGUARDED)
		error = 0;
	if (!error)
		error = run_parked(batch);
	uops_guard_stop();
	return error;
}

/* No CPU goes offline, and this thread stays on its CPU: the one asked for. */
static int run_here(struct uops_batch *batch)
{
	int error = -EXDEV;

	cpus_read_lock();
	migrate_disable();
	uops_run.cpu = smp_processor_id();
	uops_run.strict = !(batch->flags & UOPS_BATCH_MASK_LVT);
	if (uops_run.cpu == batch->cpu) {
		uops_pmu_init();
		uops_adjust_prepare();
		uops_contain_prepare();
		uops_quiet_prepare();
		error = run_guarded(batch);
	}
	migrate_enable();
	cpus_read_unlock();
	return error;
}

/*
 * Between slices CPUs may go offline, ours too: then the thread is on another one.
 * A signal, the freezer's before suspend too, ends the batch between two runs.
 */
static int run_slices(struct uops_batch *batch)
{
	int error;

	do {
		error = signal_pending(current) ? -EINTR : run_here(batch);
	} while (!error && batch->jobs_done < batch->num_jobs);
	return error;
}

/* Called with the device's lock held. */
int uops_batch(struct uops_batch *batch)
{
	int error = check_batch(batch);

	if (error)
		return error;
	sets = vmemdup_user(u64_to_user_ptr(batch->sets),
			    array_size(batch->num_sets, sizeof(*sets)));
	if (IS_ERR(sets))
		return PTR_ERR(sets);
	error = uops_areas_alloc(&areas, batch->flags & UOPS_BATCH_CONTIGUOUS,
				 batch->r14_bytes ?: UOPS_AREA_BYTES);
	if (!error)
		error = run_slices(batch);
	kvfree(sets);
	sets = NULL;
	return error;
}
