// SPDX-License-Identifier: Apache-2.0
/*
 * Runs blobs out of files that read the TSC, and prints their samples; or compares one
 * ioctl for many jobs with one ioctl per job.
 *
 *   runblob FLAGS REPETITIONS FILE...
 *   runblob speed JOBS REPETITIONS [FLAGS]
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include "uopscope_uapi.h"

#define MAX_REPETITIONS 100

static int device;
static struct uops_counter_set set = { .size = sizeof(set), .num_counters = 1 };

static int run(struct uops_job *jobs, unsigned int count, const void *code, size_t bytes,
	       struct uops_result *results, unsigned long long *samples, unsigned long long flags)
{
	struct uops_batch batch = {
		.size = sizeof(batch), .flags = flags, .code = (unsigned long)code,
		.code_bytes = bytes, .sets = (unsigned long)&set, .num_sets = 1,
		.jobs = (unsigned long)jobs, .num_jobs = count,
		.results = (unsigned long)results, .samples = (unsigned long)samples,
		.num_samples = (unsigned long long)count * jobs->repetitions,
	};

	return ioctl(device, UOPS_IOC_BATCH, &batch);
}

static int run_file(const char *path, unsigned int repetitions, unsigned long long flags)
{
	static unsigned char code[UOPS_CODE_BYTES];
	static unsigned long long samples[MAX_REPETITIONS];
	struct uops_result result;
	struct uops_job job = { .size = sizeof(job), .warm_ups = 2, .repetitions = repetitions,
				.time_limit_ns = UOPS_MAX_TIME_NS };
	FILE *file = fopen(path, "rb");
	unsigned int i;

	if (!file)
		return 1;
	job.code_bytes = fread(code, 1, sizeof(code), file);
	fclose(file);
	if (run(&job, 1, code, job.code_bytes, &result, samples, flags)) {
		perror("batch");
		return 1;
	}
	printf("SAMPLES %s status %u", path, result.status);
	for (i = 0; i < result.repetitions; i++)
		printf(" %llu", samples[i]);
	printf("\n");
	return 0;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

/* Jobs that do nothing: all the time is the module's. */
static int speed(unsigned int count, unsigned int repetitions, unsigned long long flags)
{
	static unsigned char code[64] = { [8] = 0xc3 };
	struct uops_job *jobs = calloc(count, sizeof(*jobs));
	struct uops_result *results = calloc(count, sizeof(*results));
	unsigned long long *samples = calloc((size_t)count * repetitions, sizeof(*samples)), inside = 0, quiet = 0;
	double batch, single;
	unsigned int i;

	for (i = 0; i < count; i++)
		jobs[i] = (struct uops_job){ .size = sizeof(*jobs), .code_bytes = sizeof(code),
					     .repetitions = repetitions,
					     .time_limit_ns = UOPS_MAX_TIME_NS };
	for (i = 0; i < count; i++)
		jobs[i].sample_offset = (unsigned long long)repetitions * i;
	batch = now();
	if (run(jobs, count, code, sizeof(code), results, samples, flags))
		return 1;
	batch = now() - batch;
	for (i = 0; i < count; i++) {
		inside += results[i].blob_ns;
		if (results[i].max_quiet_ns > quiet)
			quiet = results[i].max_quiet_ns;
		jobs[i].sample_offset = 0;
	}
	single = now();
	for (i = 0; i < count; i++)
		if (run(&jobs[i], 1, code, sizeof(code), results, samples, flags))
			return 1;
	single = now() - single;
	printf("SPEED jobs %u repetitions %u batch %.0f/s single %.0f/s outside-blob %.3f max-quiet-ns %llu\n",
	       count, repetitions, count / batch, count / single, 1 - inside / 1e9 / batch, quiet);
	return 0;
}

int main(int argc, char **argv)
{
	int i, failed = 0;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	device = open("/dev/uopscope", O_RDWR);
	if (device < 0 || argc < 3)
		return 2;
	if (!strcmp(argv[1], "speed"))
		return argc < 4 ? 2 : speed(atoi(argv[2]), atoi(argv[3]),
					    argc > 4 ? strtoull(argv[4], NULL, 0) : 0);
	for (i = 3; i < argc; i++)
		failed |= run_file(argv[i], atoi(argv[2]), strtoull(argv[1], NULL, 0));
	return failed;
}
