// SPDX-License-Identifier: Apache-2.0
/*
 * What a batch may ask for beside its code: the size of R14's area, and idle siblings.
 *
 *   environment area CPU FLAGS BYTES    prints `area BYTES errno N ends LOW HIGH`:
 *       whether the last eight bytes at either end can be read, and those behind not
 *   environment busy CPU FLAGS OTHER    prints `busy PERCENT`: how much of the time
 *       of a batch on CPU a process that never sleeps had on the CPU OTHER
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
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "uopscope_uapi.h"

#define REPETITIONS 30

static int device;
static unsigned long long flags, r14_bytes;
static unsigned int cpu;

static void pin(unsigned int where)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(where, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
}

static double now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec + time.tv_nsec * 1e-9;
}

/* The errno of the batch; the job's result is in *result. */
static int run(const unsigned char *code, unsigned int bytes, unsigned int repetitions,
	       struct uops_result *result)
{
	static struct uops_counter_set set = { .size = sizeof(set), .num_counters = 1 };
	static unsigned long long samples[REPETITIONS];
	struct uops_job job = {
		.size = sizeof(job), .code_bytes = bytes, .repetitions = repetitions,
		.time_limit_ns = 2000000000,
	};
	struct uops_batch batch = {
		.size = sizeof(batch), .cpu = cpu, .flags = flags,
		.code = (unsigned long)code, .code_bytes = bytes,
		.sets = (unsigned long)&set, .num_sets = 1,
		.jobs = (unsigned long)&job, .num_jobs = 1,
		.results = (unsigned long)result,
		.samples = (unsigned long)samples, .num_samples = REPETITIONS,
		.r14_bytes = r14_bytes,
	};

	memset(result, 0, sizeof(*result));
	return ioctl(device, UOPS_IOC_BATCH, &batch) ? errno : 0;
}

/* Whether eight bytes at that distance from R14 can be read; -1: neither they nor a page fault. */
static int readable(long long distance, int *error)
{
	/* mov rax, [rip - 15] (the context); mov rax, [rax + 0x40] (R14); mov rcx, [rax + distance]; ret */
	unsigned char code[] = { 0, 0, 0, 0, 0, 0, 0, 0, 0x48, 0x8b, 0x05, 0xf1, 0xff, 0xff, 0xff,
				 0x48, 0x8b, 0x40, 0x40, 0x48, 0x8b, 0x88, 0, 0, 0, 0, 0xc3 };
	struct uops_result result;
	int displacement = distance;

	memcpy(code + 22, &displacement, sizeof(displacement));
	*error = run(code, sizeof(code), 1, &result);
	if (result.status == UOPS_STATUS_OK)
		return 1;
	return result.status == UOPS_STATUS_FAULT && result.vector == 14 ? 0 : -1;
}

static int area(void)
{
	long long half = (r14_bytes ?: UOPS_AREA_BYTES) / 2;
	int error, low = readable(-half, &error) == 1, high = readable(half - 8, &error) == 1;

	low += readable(-half - 8, &error) == 0;
	high += readable(half, &error) == 0;
	printf("area %llu errno %d ends %d %d\n", r14_bytes, error, low, high);
	return 0;
}

static int busy(unsigned int other)
{
	/* mov ecx, 4000000; again: dec ecx; jnz again; ret */
	unsigned char code[] = { 0, 0, 0, 0, 0, 0, 0, 0,
				 0xb9, 0x00, 0x09, 0x3d, 0x00, 0xff, 0xc9, 0x75, 0xfc, 0xc3 };
	struct uops_result result;
	double wall, used;
	clockid_t clock;
	int error;
	pid_t child = fork();

	if (!child) {
		close(device);
		pin(other);
		for (;;)
			;
	}
	clock_getcpuclockid(child, &clock);
	usleep(300000);
	wall = now(CLOCK_MONOTONIC);
	used = now(clock);
	error = run(code, sizeof(code), REPETITIONS, &result);
	used = now(clock) - used;
	wall = now(CLOCK_MONOTONIC) - wall;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	printf("busy %.0f of %.1f s errno %d status %u\n", 100 * used / wall, wall, error,
	       result.status);
	return 0;
}

int main(int count, char **arguments)
{
	if (count != 5)
		return 2;
	cpu = atoi(arguments[2]);
	flags = strtoull(arguments[3], NULL, 0);
	device = open("/dev/uopscope", O_RDWR);
	if (device < 0)
		perror("/dev/uopscope");
	pin(cpu);
	if (!strcmp(arguments[1], "busy"))
		return busy(atoi(arguments[4]));
	r14_bytes = strtoull(arguments[4], NULL, 0);
	return area();
}
