// SPDX-License-Identifier: Apache-2.0
/*
 * Runs a blob out of a file that the module interrupts at random times, and prints where.
 *
 *   landed CPU FLAGS FILE DELAY_NS REPETITIONS [barriers]
 *
 * With `barriers` a thread on CPU 0 asks this one for a memory barrier by an interrupt, which has to be
 * answered, again and again. The blob runs until one was answered meanwhile, at most MOST_BATCHES times:
 * when a guest's CPUs get their turns is up to its host. Prints a line `LANDED status S error E
 * repetitions N barriers B`, with the barriers that were answered, and a line `AT offset R15` per sample.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "uopscope_uapi.h"

#define MOST_BATCHES 1000

static volatile int over;
static volatile unsigned long barriers;

static void pin(int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
}

static void *interrupt_it(void *unused)
{
	(void)unused;
	pin(0);
	while (!over) {
		barriers += !syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
		usleep(2000);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static unsigned char code[UOPS_CODE_BYTES];
	static struct uops_counter_set set = { .size = sizeof(set) };
	static unsigned long long samples[UOPS_INTERRUPT_SAMPLES * UOPS_MAX_REPETITIONS];
	struct uops_result result = {};
	struct uops_job job = { .size = sizeof(job), .time_limit_ns = 100000000,
				.flags = UOPS_JOB_INTERRUPT };
	unsigned long before, answered, batches = 0;
	struct uops_batch batch = {
		.size = sizeof(batch), .code = (unsigned long)code, .sets = (unsigned long)&set,
		.jobs = (unsigned long)&job, .results = (unsigned long)&result,
		.samples = (unsigned long)samples, .num_samples = sizeof(samples) / sizeof(*samples),
		.num_sets = 1, .num_jobs = 1,
	};
	int device = open("/dev/uopscope", O_RDWR);
	pthread_t other;
	unsigned int i;
	FILE *file;

	over = argc < 7;
	if (argc < 6 || device < 0)
		return 2;
	pin(atoi(argv[1]));
	syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
	batch.cpu = atoi(argv[1]);
	batch.flags = strtoull(argv[2], NULL, 0);
	file = fopen(argv[3], "rb");
	if (!file)
		return 2;
	job.code_bytes = batch.code_bytes = fread(code, 1, sizeof(code), file);
	fclose(file);
	job.delay_ns = strtoull(argv[4], NULL, 0);
	job.repetitions = atoi(argv[5]);
	pthread_create(&other, NULL, interrupt_it, NULL);
	do {
		before = barriers;
		if (ioctl(device, UOPS_IOC_BATCH, &batch)) {
			perror("batch");
			return 1;
		}
		answered = barriers - before;
	} while (!over && !answered && ++batches < MOST_BATCHES);
	over = 1;
	pthread_join(other, NULL);
	printf("LANDED status %u error %d repetitions %u barriers %lu\n", result.status,
	       result.error, result.repetitions, answered);
	for (i = 0; i < result.repetitions; i++)
		printf("AT %lld %llu\n", (long long)samples[2 * i], samples[2 * i + 1]);
	return 0;
}
