// SPDX-License-Identifier: Apache-2.0
/*
 * Runs blobs out of files with memory that is mapped on demand, each twice with one
 * between that uses none, on CPU 1; prints what is reported of each run.
 *
 *   demand FILE...        the time limit of a file whose name ends in "loop" is short
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "uopscope_uapi.h"

#define RUNS		3
#define SHORT_NS	100000000
#define GOOD_BYTES	9

static struct uops_counter_set set = { .size = sizeof(set) };
static unsigned char code[4096 + GOOD_BYTES];

static int run(int device, const char *path, unsigned int bytes)
{
	size_t length = strlen(path);
	int is_loop = length > 4 && !strcmp(path + length - 4, "loop");
	struct uops_result results[RUNS] = {};
	struct uops_job jobs[RUNS];
	struct uops_batch batch = {
		.size = sizeof(batch), .cpu = 1, .code = (unsigned long)code,
		.code_bytes = sizeof(code), .sets = (unsigned long)&set, .num_sets = 1,
		.jobs = (unsigned long)jobs, .num_jobs = RUNS,
		.results = (unsigned long)results, .samples = (unsigned long)code,
	};
	unsigned int i;

	for (i = 0; i < RUNS; i++)
		jobs[i] = (struct uops_job){
			.size = sizeof(*jobs), .repetitions = 2,
			.time_limit_ns = is_loop ? SHORT_NS : UOPS_MAX_TIME_NS,
			.code_offset = i == 1 ? 4096 : 0,
			.code_bytes = i == 1 ? GOOD_BYTES : bytes,
			.flags = i == 1 ? 0 : UOPS_JOB_ON_DEMAND,
		};
	if (ioctl(device, UOPS_IOC_BATCH, &batch)) {
		perror("batch");
		return 1;
	}
	for (i = 0; i < RUNS; i++)
		printf("DEMAND %s %u %u %llu %lld %llu %u\n", path, results[i].status, results[i].vector,
		       results[i].error_code, (long long)results[i].offset, results[i].pages,
		       results[i].changed);
	return 0;
}

int main(int argc, char **argv)
{
	int device, file, i, failed = 0;
	cpu_set_t cpus;
	ssize_t bytes;

	CPU_ZERO(&cpus);
	CPU_SET(1, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	device = open("/dev/uopscope", O_RDWR);
	if (device < 0)
		return 2;
	code[sizeof(code) - 1] = 0xc3;
	for (i = 1; i < argc; i++) {
		file = open(argv[i], O_RDONLY);
		bytes = read(file, code, 4096);
		close(file);
		failed |= bytes < GOOD_BYTES || run(device, argv[i], bytes);
	}
	return failed;
}
