// SPDX-License-Identifier: Apache-2.0
/*
 * Holds known values in every register that user space can see, while blobs on the same
 * CPU overwrite them; and a debug register through perf, which has to work afterwards, as
 * does a software event (page faults), and hardware events if there are any.
 *
 *   held_registers ROUNDS
 *
 * Prints `held_registers: ROUNDS rounds, PROBLEMS problems` and what differed.
 */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "blobs.h"
#include "uopscope_uapi.h"

/* FXSAVE's area (x87, MXCSR, XMM), the upper halves of YMM, and the bases */
struct registers {
	unsigned char fx[512] __attribute__((aligned(64)));
	unsigned char upper[16][16];
	unsigned long fs, gs;
	unsigned short ds, es, fs_selector, gs_selector;
};

static volatile long watched;

/* Nothing of the C library stands between filling registers and reading them. */
static long raw_syscall(long number, long first, long second, void *third)
{
	long result;

	asm volatile("syscall"
		     : "=a" (result)
		     : "a" (number), "D" (first), "S" (second), "d" (third)
		     : "rcx", "r11", "memory");
	return result;
}

static unsigned long base_of(int code)
{
	unsigned long value = 0;

	raw_syscall(SYS_arch_prctl, code, (long)&value, NULL);
	return value;
}

#define UPPER(n) asm volatile("vextractf128 $1, %%ymm" #n ", %0" : "=m" (r->upper[n]))
#define FILL(n) asm volatile("vbroadcastss %0, %%ymm" #n : : "m" (words[n]))

static void fill(int seed)
{
	static unsigned int words[16];
	unsigned int mxcsr = 0x1f80 | (seed & 3) << 13;
	int i;

	for (i = 0; i < 16; i++)
		words[i] = 0x3f800000 + seed * 16 + i;
	asm volatile("fninit; fld1; fldpi; fldl2e");
	asm volatile("ldmxcsr %0" : : "m" (mxcsr));
	FILL(0); FILL(1); FILL(2); FILL(3); FILL(4); FILL(5); FILL(6); FILL(7);
	FILL(8); FILL(9); FILL(10); FILL(11); FILL(12); FILL(13); FILL(14); FILL(15);
}

static void read_all(struct registers *r)
{
	UPPER(0); UPPER(1); UPPER(2); UPPER(3); UPPER(4); UPPER(5); UPPER(6); UPPER(7);
	UPPER(8); UPPER(9); UPPER(10); UPPER(11); UPPER(12); UPPER(13); UPPER(14); UPPER(15);
	asm volatile("fxsave64 %0" : "=m" (r->fx));
	/* bytes 464 to 511 are the software's */
	memset(r->fx + 464, 0, 48);
	r->fs = base_of(ARCH_GET_FS);
	r->gs = base_of(ARCH_GET_GS);
	asm volatile("mov %%ds, %0" : "=r" (r->ds));
	asm volatile("mov %%es, %0" : "=r" (r->es));
	asm volatile("mov %%fs, %0" : "=r" (r->fs_selector));
	asm volatile("mov %%gs, %0" : "=r" (r->gs_selector));
}

static int may_be(const struct blob *blob, unsigned int status)
{
	const struct also *other;

	if (status == blob->status)
		return 1;
	for (other = also; other->name; other++)
		if (other->name == blob->name && status == other->status)
			return 1;
	return 0;
}

/* Another process on the same CPU: its registers must stay whatever the blobs do. */
static int watch_registers(int seed)
{
	static struct registers before, now;

	syscall(SYS_arch_prctl, ARCH_SET_GS, 0x12340000ul + seed);
	fill(seed);
	read_all(&before);
	for (;;) {
		fill(seed);
		raw_syscall(SYS_sched_yield, 0, 0, NULL);
		read_all(&now);
		if (memcmp(&before, &now, sizeof(now)))
			return 1;
	}
}

static int open_breakpoint(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT, .size = sizeof(attr), .bp_type = HW_BREAKPOINT_W,
		.bp_addr = (unsigned long)&watched, .bp_len = HW_BREAKPOINT_LEN_8,
		.exclude_kernel = 1,
	};

	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

static int open_event(unsigned int type, unsigned long long config)
{
	struct perf_event_attr attr = { .type = type, .size = sizeof(attr), .config = config };

	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

/* Page faults that perf counts while so many pages are touched for the first time. */
static long count_faults(int event, int pages)
{
	long long before = 0, after = 0;
	char *memory = mmap(NULL, pages * 4096l, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int i;

	if (memory == MAP_FAILED)
		return -1;
	/* a kernel without huge pages does not know it */
	if (madvise(memory, pages * 4096l, MADV_NOHUGEPAGE) && errno != EINVAL)
		return -1;
	if (read(event, &before, 8) != 8)
		return -1;
	for (i = 0; i < pages; i++)
		memory[i * 4096l] = 1;
	if (read(event, &after, 8) != 8)
		return -1;
	munmap(memory, pages * 4096l);
	return after - before;
}

/* Instructions of a loop, or the negative errno of opening the event. */
static long count_instructions(void)
{
	int event = open_event(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS);
	long long count = 0;
	volatile int i;

	if (event < 0)
		return -errno;
	for (i = 0; i < 1000; i++)
		;
	if (read(event, &count, 8) != 8)
		count = -1;
	close(event);
	return count;
}

static struct uops_counter_set set = { .size = sizeof(set), .num_counters = 1 };
static struct uops_job job;
static struct uops_result result;
static unsigned long long sample;
static struct uops_batch batch;

static void prepare(const struct blob *blob)
{
	job = (struct uops_job){
		.size = sizeof(job), .code_bytes = blob->end - blob->start,
		.repetitions = 1,
		/* what ends must not be stopped because the host is busy */
		.time_limit_ns = blob->status == UOPS_STATUS_TIME_OUT ? 50000000 : 1000000000,
	};
	batch = (struct uops_batch){
		.size = sizeof(batch), .code = (unsigned long)blob->start,
		.code_bytes = job.code_bytes, .sets = (unsigned long)&set, .num_sets = 1,
		.jobs = (unsigned long)&job, .num_jobs = 1, .results = (unsigned long)&result,
		.samples = (unsigned long)&sample, .num_samples = 1,
	};
}

/* The caller's own registers and its debug register, over one blob. */
static int check_own(int device, int breakpoint, const struct blob *blob, int seed)
{
	static struct registers before, after;
	long long hits_before = 0, hits_after = 0;
	int problems = 0;
	long error;

	prepare(blob);
	fill(seed);
	read_all(&before);
	fill(seed);
	error = raw_syscall(SYS_ioctl, device, UOPS_IOC_BATCH, &batch);
	read_all(&after);
	if (error || !may_be(blob, result.status)) {
		printf("%s: error %ld, status %u\n", blob->name, error, result.status);
		problems++;
	}
	if (memcmp(&before, &after, sizeof(after))) {
		printf("%s: registers differ\n", blob->name);
		problems++;
	}
	if (read(breakpoint, &hits_before, 8) != 8)
		problems++;
	watched = seed;
	if (read(breakpoint, &hits_after, 8) != 8 || hits_after != hits_before + 1) {
		printf("%s: the breakpoint counted %lld\n", blob->name, hits_after - hits_before);
		problems++;
	}
	return problems;
}

int main(int argc, char **argv)
{
	int rounds, round, device, breakpoint, faults, status, problems = 0;
	long before, after, instructions;
	const struct blob *blob;
	cpu_set_t cpus;
	pid_t child;

	if (argc < 2)
		return 2;
	rounds = atoi(argv[1]);
	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	child = fork();
	if (!child)
		return watch_registers(77);
	device = open("/dev/uopscope", O_RDWR);
	breakpoint = open_breakpoint();
	faults = open_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
	if (device < 0 || breakpoint < 0 || faults < 0) {
		perror("held_registers");
		return 1;
	}
	before = count_faults(faults, 100);
	instructions = count_instructions();
	for (round = 0; round < rounds; round++)
		for (blob = blobs; blob->name; blob++) {
			/* the marker of this one is replaced elsewhere */
			if (strcmp(blob->name, "kernel_loop") && strncmp(blob->name, "only_", 5))
				problems += check_own(device, breakpoint, blob, round + 1);
			sched_yield();
		}
	if (waitpid(child, &status, WNOHANG)) {
		printf("the watching process ended: %#x\n", status);
		problems++;
	}
	kill(child, SIGKILL);
	after = count_faults(faults, 100);
	printf("perf: page faults %ld before, %ld after; instructions %ld before, %ld after\n",
	       before, after, instructions, count_instructions());
	problems += before != 100 || after != 100;
	printf("held_registers: %d rounds, %d problems\n", rounds, problems);
	return problems != 0;
}
