// SPDX-License-Identifier: Apache-2.0
/*
 * Random and boundary values for every field of the ioctls.
 *
 *   fuzz CALLS SEED
 *
 * Most calls start from a good batch and change some fields; blobs are a RET, so
 * nothing that is accepted does harm. The errno of each call has to be one that the
 * interface can give. Prints a line per errno and `fuzz: CALLS calls, BAD bad`.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "uopscope_uapi.h"

#define NUM_JOBS 4
#define NUM_SETS 3
#define NUM_SAMPLES 256
#define CODE_BYTES 4096
#define JOB_BYTES 64

typedef unsigned long long u64;

struct everything {
	struct uops_batch batch;
	struct uops_counter_set sets[NUM_SETS];
	struct uops_job jobs[NUM_JOBS];
	struct uops_result results[NUM_JOBS];
	u64 samples[NUM_SAMPLES];
};

static struct everything *all;
/* nothing but RET, whatever offset a job names; unmapped behind it */
static unsigned char *code;
static u64 state;

static u64 next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static u64 value(void)
{
	static const u64 boundaries[] = {
		0, 1, 2, 3, 8, 9, 15, 16, 17, 63, 64, 255, 256, 4095, 4096, 4097,
		UOPS_CODE_BYTES - 1, UOPS_CODE_BYTES, UOPS_CODE_BYTES + 1, UOPS_MAX_JOBS,
		UOPS_MAX_JOBS + 1, UOPS_MAX_SETS, UOPS_MAX_SETS + 1, UOPS_MAX_TIME_NS,
		UOPS_MAX_TIME_NS + 1ull, UOPS_MIN_TIME_NS - 1, 0x7fffffff, 0x80000000,
		0xffffffff, 0x100000000, 0x7fffffffffffffff, 0x8000000000000000,
		0xffffffffffffffff, 0x7ffffffff000, 0xffff800000000000, 0xffffffff81000000,
	};

	switch (next_random() % 4) {
	case 0:
		return next_random();
	case 1:
		return (u64)(unsigned long)all + next_random() % (sizeof(*all) + 64);
	default:
		return boundaries[next_random() % (sizeof(boundaries) / sizeof(*boundaries))];
	}
}

static void fill_good(void)
{
	int i;

	memset(all, 0, sizeof(*all));
	for (i = 0; i < NUM_SETS; i++)
		all->sets[i] = (struct uops_counter_set){ .size = sizeof(all->sets[i]),
							  .num_counters = 1 };
	for (i = 0; i < NUM_JOBS; i++)
		all->jobs[i] = (struct uops_job){
			.size = sizeof(all->jobs[i]), .code_bytes = JOB_BYTES,
			.repetitions = 2, .time_limit_ns = 100000000, .sample_offset = 2 * i,
			.set = i % NUM_SETS,
		};
	all->batch = (struct uops_batch){
		.size = sizeof(all->batch), .code = (u64)(unsigned long)code,
		.code_bytes = CODE_BYTES, .sets = (u64)(unsigned long)all->sets,
		.jobs = (u64)(unsigned long)all->jobs, .results = (u64)(unsigned long)all->results,
		.samples = (u64)(unsigned long)all->samples, .num_samples = NUM_SAMPLES,
		.num_sets = NUM_SETS, .num_jobs = next_random() % (NUM_JOBS + 1),
	};
}

/* Change one field: 4 or 8 bytes at a multiple of 4, of one of the structures. */
static void spoil(void)
{
	size_t size = offsetof(struct everything, results);
	size_t at = next_random() % (size / 4) * 4;
	u64 bits = value();
	size_t bytes = at % 8 || next_random() & 1 ? 4 : 8;

	memcpy((char *)all + at, &bits, bytes);
	/* what runs in ring 0 is a RET or nothing, and not for long */
	if (all->batch.code != (u64)(unsigned long)code)
		all->batch.code = 0xffffffff81000000;
	if (all->jobs[0].repetitions > 100 && next_random() % 64)
		all->jobs[0].repetitions = 101;
}

static int one_call(int device)
{
	struct uops_info info = { .size = sizeof(info) };

	fill_good();
	switch (next_random() % 16) {
	case 0:
		if (next_random() & 1)
			info.size = value();
		return ioctl(device, UOPS_IOC_INFO, &info);
	case 1:
		return ioctl(device, UOPS_IOC_INFO, value());
	case 2:
		return ioctl(device, UOPS_IOC_BATCH, value());
	case 3:
		return ioctl(device, (unsigned int)value(), all);
	case 4:
		return ioctl(device, UOPS_IOC_BATCH, &all->batch);
	case 5:
		spoil();
		spoil();
		spoil();
		/* fall through */
	default:
		spoil();
		return ioctl(device, UOPS_IOC_BATCH, &all->batch);
	}
}

/* The device's own errors, and those of any ioctl of a file (FIONBIO and the like). */
static int may_be(int error)
{
	switch (error) {
	case 0: case EINVAL: case EFAULT: case ENOTTY: case E2BIG: case EXDEV:
	case EOPNOTSUPP: case ENOMEM: case EINTR:
		return 1;
	default:
		return 0;
	}
}

int main(int argc, char **argv)
{
	static long counts[256];
	long i, calls, bad = 0;
	int device, error;
	cpu_set_t cpus;

	if (argc < 3)
		return 2;
	calls = atol(argv[1]);
	state = strtoull(argv[2], NULL, 0) * 0x9e3779b97f4a7c15ull + 1;
	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	code = mmap(NULL, 2 * CODE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	device = open("/dev/uopscope", O_RDWR);
	if (device < 0 || all == MAP_FAILED || code == MAP_FAILED ||
	    mprotect(code + CODE_BYTES, CODE_BYTES, PROT_NONE)) {
		perror("fuzz");
		return 1;
	}
	memset(code, 0xc3, CODE_BYTES);
	for (i = 0; i < calls; i++) {
		error = one_call(device) < 0 ? errno : 0;
		counts[error & 255]++;
		if (!may_be(error))
			bad++;
	}
	for (i = 0; i < 256; i++)
		if (counts[i])
			printf("errno %ld %s: %ld\n", i, i ? strerror(i) : "none", counts[i]);
	printf("fuzz: %ld calls, %ld bad\n", calls, bad);
	return bad != 0;
}
