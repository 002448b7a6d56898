// SPDX-License-Identifier: Apache-2.0
/*
 * Runs every blob of blobs.S so many times and compares what is reported of it.
 *
 *   [DELAY=NS] contain CPU ROUNDS FLAGS [PREFIX [any]]
 *
 * Only kinds whose name begins so (without a prefix not those of only_; with
 * -PREFIX all others); with `any`, whatever exception ends them.
 * With DELAY the bad blobs are interrupted after so long. What does not end may be over
 * then, with `any` everything. Kinds that are about the interrupt flag are left out.
 * After each bad blob the good one must run. Blobs that do not end are left out
 * where nothing can end them (UOPS_BATCH_UNGUARDED). Prints one line per kind and
 * a last line `contain: KINDS kinds, RUNS runs, FAILURES failures`.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "blobs.h"
#include "uopscope_uapi.h"

static int device, any_vector;
static unsigned long long flags, cpu, delay;

/* An endless loop of the kernel's own; 0 if its address is not shown. Looked up once: the list is long. */
static unsigned long long kernel_loop(void)
{
	static unsigned long long found;
	char line[512];
	FILE *file;

	if (found)
		return found;
	file = fopen("/proc/kallsyms", "r");
	while (file && !found && fgets(line, sizeof(line), file))
		if (strstr(line, " panic_smp_self_stop\n"))
			found = strtoull(line, NULL, 16);
	if (file)
		fclose(file);
	return found;
}

/* The blob's code with the address of that loop in place of the marker. */
static const unsigned char *code_of(const struct blob *blob)
{
	static const char marker[8] = "rehwesle";
	static unsigned char copy[4096];
	size_t size = blob->end - blob->start;
	unsigned long long address;
	unsigned char *at;

	memcpy(copy, blob->start, size);
	at = memmem(copy, size, marker, sizeof(marker));
	if (at) {
		address = kernel_loop();
		memcpy(at, &address, sizeof(address));
	}
	return copy;
}

static struct uops_result run(const struct blob *blob, unsigned long long delay_ns)
{
	static struct uops_counter_set set = {
		.size = sizeof(set), .num_counters = 1,
	};
	struct uops_job job = {
		.size = sizeof(job), .code_bytes = blob->end - blob->start,
		.repetitions = 1,
		/* what ends must not be stopped because the host is busy */
		.time_limit_ns = blob->status == UOPS_STATUS_TIME_OUT ? 50000000 : 1000000000,
		.flags = delay_ns ? UOPS_JOB_INTERRUPT : 0, .delay_ns = delay_ns,
	};
	struct uops_result result;
	unsigned long long samples[UOPS_INTERRUPT_SAMPLES];
	struct uops_batch batch = {
		.size = sizeof(batch), .cpu = cpu, .flags = flags,
		.code = (unsigned long)code_of(blob), .code_bytes = job.code_bytes,
		.sets = (unsigned long)&set, .num_sets = 1,
		.jobs = (unsigned long)&job, .num_jobs = 1,
		.results = (unsigned long)&result,
		.samples = (unsigned long)samples, .num_samples = UOPS_INTERRUPT_SAMPLES,
	};

	memset(&result, 0, sizeof(result));
	if (ioctl(device, UOPS_IOC_BATCH, &batch))
		perror("batch");
	return result;
}

/* A loop is interrupted somewhere in it, or, if it is elsewhere, at an address. */
static int in_loop(const struct blob *blob, const struct uops_result *result)
{
	if (blob->offset == -1u)
		return result->offset == UOPS_NO_OFFSET && result->address;
	return result->offset >= blob->offset &&
	       result->offset < (unsigned long)(blob->end - blob->start);
}

static int at_right_place(const struct blob *blob, const struct uops_result *result)
{
	if (result->status == UOPS_STATUS_TIME_OUT)
		return in_loop(blob, result);
	if (result->status != UOPS_STATUS_FAULT || blob->offset == -1u)
		return result->offset == UOPS_NO_OFFSET;
	return result->offset == blob->offset;
}

static int is(const struct blob *blob, const struct uops_result *result,
	      unsigned int status, unsigned int vector, unsigned int changed)
{
	if (result->status != status)
		return 0;
	if (any_vector)
		return 1;
	if (result->vector != vector || !at_right_place(blob, result))
		return 0;
	return status == UOPS_STATUS_TIME_OUT || result->changed == changed;
}

static int as_expected(const struct blob *blob, const struct uops_result *result)
{
	const struct also *other;

	if (is(blob, result, blob->status, blob->vector, blob->changed))
		return 1;
	for (other = also; other->name; other++)
		if (other->name == blob->name &&
		    is(blob, result, other->status, other->vector, other->changed))
			return 1;
	/* it was interrupted before */
	return delay && result->status == UOPS_STATUS_OK &&
	       (any_vector || blob->status == UOPS_STATUS_TIME_OUT);
}

static int check(const struct blob *blob, int rounds)
{
	struct uops_result result, last = {};
	int i, failures = 0;

	for (i = 0; i < rounds; i++) {
		result = run(blob, delay);
		if (!as_expected(blob, &result)) {
			last = result;
			failures++;
		}
		result = run(&blobs[0], 0);
		failures += result.status != UOPS_STATUS_OK;
	}
	printf("%-22s %d/%d", blob->name, rounds - failures, rounds);
	if (failures)
		printf("  got status %u vector %u offset %#llx address %#llx changed %#x error %d, expected %u %u %#x %#x",
		       last.status, last.vector, last.offset, last.address, last.changed,
		       last.error, blob->status, blob->vector, blob->offset, blob->changed);
	printf("\n");
	fflush(stdout);
	return failures;
}

/*
 * With interrupts on in the blob, the kernel's handlers run on its stack and with
 * its GS base. The interrupt flag is set, too. So these kinds are only for
 * interrupts off, the default.
 */
static int needs_cli(const struct blob *blob)
{
	static const char *const prefixes[] = {
		"rsp_", "gs_", "swapgs", "sti", "cli", "loop_no_stack", "kernel_loop",
		"int_fe_rsp", "cr8", "cr0", "cr4", "gdt", "lidt", "sysret",
	};
	size_t i;

	/* INT n has a stack of its own then, and interrupts are on as they should be */
	if (delay)
		return !strncmp(blob->name, "sti", 3) || !strcmp(blob->name, "int_fe_rsp_zero");
	if (!(flags & UOPS_BATCH_MASK_LVT))
		return 0;
	for (i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
		if (!strncmp(blob->name, prefixes[i], strlen(prefixes[i])))
			return 1;
	return 0;
}

static int is_wanted(const char *name, const char *prefix)
{
	if (*prefix != '-')
		return !strncmp(prefix, name, strlen(prefix));
	return strncmp(name, "only_", 5) && strncmp(prefix + 1, name, strlen(prefix + 1));
}

int main(int argc, char **argv)
{
	int rounds, kinds = 0, failures = 0;
	const struct blob *blob;
	cpu_set_t set;

	if (argc < 4)
		return 2;
	cpu = strtoull(argv[1], NULL, 0);
	rounds = atoi(argv[2]);
	flags = strtoull(argv[3], NULL, 0);
	any_vector = argc > 5;
	delay = strtoull(getenv("DELAY") ?: "0", NULL, 0);
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
	device = open("/dev/uopscope", O_RDWR);
	if (device < 0) {
		perror("/dev/uopscope");
		return 1;
	}
	for (blob = blobs; blob->name; blob++) {
		if (!is_wanted(blob->name, argc > 4 ? argv[4] : "-only_"))
			continue;
		if (flags & UOPS_BATCH_UNGUARDED && blob->status == UOPS_STATUS_TIME_OUT)
			continue;
		if (needs_cli(blob))
			continue;
		failures += check(blob, rounds);
		kinds++;
	}
	printf("contain: %d kinds, %d runs, %d failures\n", kinds, kinds * rounds, failures);
	return failures != 0;
}
