// SPDX-License-Identifier: Apache-2.0
/*
 * How soon a signal ends a batch, and what comes of the rest.
 *
 *   interrupt CPU many      many short jobs, a signal, and the same call again
 *   interrupt CPU endless   one endless job with the longest limit, and a signal
 *   interrupt CPU slow N    N jobs of some milliseconds, no signal of ours; goes on for
 *                           as long as the call says EINTR, and counts how often it does
 *
 * Prints `interrupt: KIND errno E after MS ms, DONE of JOBS done, then errno E2, BAD bad, CALLS calls`.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "uopscope_uapi.h"

#define SIGNAL_AFTER_US 200000

static const unsigned char endless[] = { 0, 0, 0, 0, 0, 0, 0, 0, 0xeb, 0xfe };
/* MOV ECX, 0x40000; DEC ECX; JNZ; RET: a moment on any machine */
static const unsigned char moment[] = { 0, 0, 0, 0, 0, 0, 0, 0, 0xb9, 0, 0, 4, 0, 0xff, 0xc9, 0x75, 0xfc, 0xc3 };

/* When the signal was sent: the child that sends it says so here. */
static double *signalled;

static double now_ms(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

static void on_signal(int number)
{
	(void)number;
}

/*
 * As Ctrl-C does: from another CPU, since interrupts are off on the one that runs code. The child has left that CPU when
 * the batch begins, and begins to wait when it is told so by signal_soon: a signal before the batch would end nothing.
 */
static int prepare_signal(int cpu)
{
	struct sigaction action = { .sa_handler = on_signal };
	pid_t parent = getpid();
	cpu_set_t others;
	int ends[2];
	char byte;

	sigaction(SIGUSR1, &action, NULL);
	if (pipe(ends))
		exit(2);
	if (fork())
		return ends[1];
	sched_getaffinity(0, sizeof(others), &others);
	CPU_CLR(cpu, &others);
	sched_setaffinity(0, sizeof(others), &others);
	if (read(ends[0], &byte, 1) == 1) {
		usleep(SIGNAL_AFTER_US);
		*signalled = now_ms();
		kill(parent, SIGUSR1);
	}
	_exit(0);
}

static void signal_soon(int starter)
{
	if (write(starter, "", 1) != 1)
		exit(2);
}

int main(int argc, char **argv)
{
	int cpu = argc > 2 ? atoi(argv[1]) : 0, first, second, device, is_endless, starter = -1;
	unsigned int again = 0, jobs_wanted = argc > 3 ? atoi(argv[3]) : 1000, done, bad = 0, i;
	struct uops_counter_set set = { .size = sizeof(set), .num_counters = 1 };
	struct uops_result *results = calloc(jobs_wanted, sizeof(*results));
	struct uops_job *jobs = calloc(jobs_wanted, sizeof(*jobs));
	unsigned long long *samples = calloc(jobs_wanted, sizeof(*samples));
	struct uops_batch batch = { .size = sizeof(batch), .cpu = cpu, .num_sets = 1 };
	double ended;
	cpu_set_t cpus;

	if (argc < 3)
		return 2;
	is_endless = !strcmp(argv[2], "endless");
	if (is_endless)
		jobs_wanted = 1;
	signalled = mmap(NULL, sizeof(*signalled), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (signalled == MAP_FAILED)
		return 2;
	if (strcmp(argv[2], "slow"))
		starter = prepare_signal(cpu);
	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	device = open("/dev/uopscope", O_RDWR);
	for (i = 0; i < jobs_wanted; i++)
		jobs[i] = (struct uops_job){
			.size = sizeof(*jobs), .repetitions = 1, .sample_offset = i,
			.code_bytes = is_endless ? sizeof(endless) : sizeof(moment),
			.time_limit_ns = UOPS_MAX_TIME_NS,
		};
	batch.code = (unsigned long)(is_endless ? endless : moment);
	batch.code_bytes = jobs[0].code_bytes;
	batch.sets = (unsigned long)&set;
	batch.jobs = (unsigned long)jobs;
	batch.results = (unsigned long)results;
	batch.samples = (unsigned long)samples;
	batch.num_samples = batch.num_jobs = jobs_wanted;
	if (starter >= 0)
		signal_soon(starter);
	do {
		first = ioctl(device, UOPS_IOC_BATCH, &batch) ? errno : 0;
		again++;
	} while (first == EINTR && !strcmp(argv[2], "slow"));
	ended = now_ms();
	done = batch.jobs_done;
	second = first == EINTR && !is_endless && ioctl(device, UOPS_IOC_BATCH, &batch) ? errno : 0;
	for (i = 0; i < jobs_wanted && !is_endless; i++)
		bad += results[i].status != UOPS_STATUS_OK;
	printf("interrupt: %s errno %d after %.0f ms, %u of %u done, then errno %d, %u bad, %u calls\n",
	       argv[2], first, ended - *signalled, done, jobs_wanted, second, bad, again);
	return 0;
}
