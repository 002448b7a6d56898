/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * The interface of /dev/uopscope: runs microbenchmarks in ring 0 between counter
 * reads and returns raw differences.
 *
 * Every structure starts with its size, has fixed-width fields and no holes;
 * pointers are __u64; reserved fields and unused flag bits must be zero.
 *
 * A blob is position-independent code. Offset 0 is a __u64 that the module fills
 * with the address of the context page; offset 8 is the entry, entered by a CALL
 * and left by a RET. Offsets into the context page are UOPS_CTX_*.
 */
#ifndef _UAPI_UOPSCOPE_H
#define _UAPI_UOPSCOPE_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define UOPS_ABI_VERSION	5

/* Limits. Sizes in bytes, times in nanoseconds. */
#define UOPS_CODE_BYTES		0x100000	/* longest blob */
#define UOPS_AREA_BYTES		0x100000	/* each memory area */
#define UOPS_AREA_CLEAN		0x2000		/* zero below and above the pointer */
#define UOPS_R14_STEP		0x10000		/* uops_batch.r14_bytes is a multiple */
#define UOPS_MAX_R14_BYTES	0x40000000
#define UOPS_MAX_JOBS		65536
#define UOPS_MAX_SETS		4096
#define UOPS_MAX_COUNTERS	16		/* counters of one set */
#define UOPS_MAX_WRITES		64		/* registers that one set writes */
#define UOPS_MAX_PAGES		8192		/* mapped on demand for one job */
#define UOPS_MAX_WARM_UPS	1000
#define UOPS_MAX_REPETITIONS	10000
#define UOPS_MAX_ITERATIONS	1000000000
#define UOPS_MIN_TIME_NS	1000000		/* per repetition */
#define UOPS_MAX_TIME_NS	2000000000
#define UOPS_MIN_DELAY_NS	1000
#define UOPS_MAX_DELAY_NS	1000000000

/* The context page. */
#define UOPS_CTX_AREA_R14	0x040
#define UOPS_CTX_AREA_RSI	0x048
#define UOPS_CTX_AREA_RDI	0x050
#define UOPS_CTX_AREA_RBP	0x058
#define UOPS_CTX_AREA_RSP	0x060
#define UOPS_CTX_ITERATIONS	0x068
#define UOPS_CTX_NUM_COUNTERS	0x070
#define UOPS_CTX_INDEX		0x080
#define UOPS_CTX_START		0x100
#define UOPS_CTX_END		0x180
#define UOPS_CTX_PAGE		0x230	/* UOPS_JOB_ON_DEMAND: the page that serves all */
#define UOPS_CTX_VALUE		0x238	/* likewise: uops_job.value */
#define UOPS_CTX_ONCE		0x240	/* 0 at a job's first repetition, then the blob's */

/* UOPS_JOB_ON_DEMAND: where such a blob runs, and which addresses are served. */
#define UOPS_STAGE		0x500000000000ULL
#define UOPS_FIRST_ADDRESS	0x10000ULL
#define UOPS_END_ADDRESS	0x800000000000ULL

/* What a counter of a set is; the blob reads it, the module programs it. */
#define UOPS_COUNTER_TSC	0	/* the blob's clock number index: nothing to program */
#define UOPS_COUNTER_PROG	1	/* programmable counter number index */
#define UOPS_COUNTER_FIXED	2	/* fixed counter number index */
#define UOPS_COUNTER_MSR	3	/* register number index, read by RDMSR */

#define UOPS_MSR_MPERF		0xe7
#define UOPS_MSR_APERF		0xe8
#define UOPS_MSR_IRPERF		0xc00000e9

/* PMU families: struct uops_info.pmu_kind */
#define UOPS_PMU_NONE		0
#define UOPS_PMU_INTEL		1	/* architectural, version 2 and up */
#define UOPS_PMU_AMD		2	/* core counters of Zen */

#define UOPS_NO_CPU		(~0U)

/* struct uops_info.features */
#define UOPS_FEATURE_APERFMPERF	0x1ULL
#define UOPS_FEATURE_FRED	0x2ULL	/* refused: faults not contained */
#define UOPS_FEATURE_HYPERVISOR	0x4ULL
#define UOPS_FEATURE_FULL_WRITE	0x8ULL	/* full-width counter writes */
#define UOPS_FEATURE_IRPERF	0x10ULL
#define UOPS_FEATURE_DEBUG	0x20ULL	/* loaded for a test: see leave_rdpmc */
#define UOPS_FEATURE_APIC	0x40ULL	/* local APIC: LVT policy, NMI */
#define UOPS_FEATURE_SMI_COUNT	0x80ULL	/* struct uops_result.smis counts */
#define UOPS_FEATURE_XFD	0x100ULL	/* IA32_XFD is cleared during runs */
#define UOPS_FEATURE_SPEC_CTRL	0x200ULL	/* likewise IA32_SPEC_CTRL */
#define UOPS_FEATURE_TSX_ABORT	0x400ULL	/* TSX aborts during a batch, for PMC3 */

struct uops_info {
	__u32 size;
	__u32 abi_version;
	__u64 features;
	__u32 cpu;		/* where the caller was running */
	__u32 online_cpus;
	__u32 family;
	__u32 model;
	__u32 stepping;
	__u32 microcode;
	__u32 pmu_kind;
	__u32 pmu_version;
	__u32 prog_mask;	/* bit n: there is a programmable counter n */
	__u32 fixed_mask;
	__u32 width_prog;	/* bits */
	__u32 width_fixed;
	__u32 tsc_khz;
	__u32 core_type;	/* CPUID.1AH:EAX[31:24], 0 if not hybrid */
	__u64 config_mask;	/* bits of uops_counter.config that may be set */
	__u32 guard_cpu;	/* whose timer ends endless code; UOPS_NO_CPU: none */
	__u32 reserved0;
	__u64 reserved[3];
};

struct uops_counter {
	__u32 kind;
	__u32 index;
	__u64 config;		/* event select register without EN, INT, USR, OS */
};

/* A register that events need, or of a counter outside of the core (registers.c). */
struct uops_write {
	__u32 msr;
	__u32 reserved;
	__u64 value;
};

struct uops_counter_set {
	__u32 size;
	__u32 num_counters;
	struct uops_counter counters[UOPS_MAX_COUNTERS];
	__u32 num_writes;
	__u32 reserved;
	struct uops_write writes[UOPS_MAX_WRITES];	/* in this order */
};

/*
 * struct uops_job.flags. On demand, the lower half of the addresses is the job's own:
 * a page that it touches is mapped when it faults, and the repetition begins again.
 * All pages are the one at UOPS_CTX_PAGE.
 *
 * With UOPS_JOB_INTERRUPT, alone, the local APIC's timer interrupts each repetition and
 * ends it, at a random time between delay_ns and twice that after the blob was entered.
 * A repetition has two samples, whatever its counters: the offset in the blob that
 * the interrupt would have returned to, and R15 there. The offset is UOPS_NO_OFFSET where
 * the blob was over before, or something else interrupted it.
 */
#define UOPS_JOB_ON_DEMAND	0x1ULL
#define UOPS_JOB_KEEP_PAGES	0x2ULL	/* pages of the job before it stay */
#define UOPS_JOB_INTERRUPT	0x4ULL
#define UOPS_JOB_FLAGS		0x7ULL
#define UOPS_INTERRUPT_SAMPLES	2	/* of a repetition that is interrupted */

struct uops_job {
	__u32 size;
	__u32 set;		/* index of its counter set */
	__u32 code_offset;	/* of the blob, in uops_batch.code */
	__u32 code_bytes;
	__u32 warm_ups;
	__u32 repetitions;
	__u64 iterations;	/* for the context page */
	__u64 time_limit_ns;	/* per repetition */
	__u64 sample_offset;	/* in uops_batch.samples, in samples */
	__u64 flags;
	__u64 value;		/* for the context page; 0 unless on demand */
	__u64 delay_ns;		/* of the interrupt; 0 unless UOPS_JOB_INTERRUPT */
};

/* What became of a job: struct uops_result.status */
#define UOPS_STATUS_NOT_RUN	0
#define UOPS_STATUS_OK		1
#define UOPS_STATUS_FAULT	2	/* vector, error_code, offset, address */
#define UOPS_STATUS_TIME_OUT	3	/* stopped from another CPU */
#define UOPS_STATUS_REFUSED	4	/* error: a negative errno */
#define UOPS_STATUS_STATE	5	/* IF, RSP or a callee-saved register changed */

/* struct uops_result.changed: what had to be put back after the blob */
#define UOPS_CHANGED_FLAGS	0x1U	/* DF, TF, AC, NT or IOPL */
#define UOPS_CHANGED_CONTROL	0x2U	/* CR0, CR3, CR4, CR8, XCR0 */
#define UOPS_CHANGED_DEBUG	0x4U	/* debug registers */
#define UOPS_CHANGED_SEGMENTS	0x8U	/* selectors or bases */
#define UOPS_CHANGED_TABLES	0x10U	/* GDTR, IDTR, LDTR */
#define UOPS_CHANGED_MSRS	0x20U
#define UOPS_CHANGED_STACK	0x40U	/* RSP or a callee-saved register */
#define UOPS_CHANGED_IF		0x80U	/* the interrupt flag */

#define UOPS_NO_OFFSET		(~0ULL)

/*
 * One sample is the difference end - start of one counter in one repetition,
 * modulo the counter's width. Sample [r * num_counters + c] of a job is that of
 * counter c in repetition r.
 */
struct uops_result {
	__u32 size;
	__u32 status;
	__s32 error;
	__u32 vector;		/* of the exception that ended the job */
	__u64 error_code;
	__u64 offset;		/* of the faulting instruction in the blob */
	__u64 address;		/* CR2 for a page fault, else 0 */
	__u32 repetitions;	/* that have samples */
	__u32 changed;
	__u64 elapsed_ns;	/* whole job */
	__u64 blob_ns;		/* inside the blob, all runs */
	__u64 max_quiet_ns;	/* longest time that interrupts were kept away */
	__u64 smis;		/* system management interrupts during the job */
	__u64 aperf[2];		/* ticks in the first and second half of its runs */
	__u64 mperf[2];
	__u64 pages;		/* mapped on demand, for this job and kept */
	__u64 reserved;
};

/* struct uops_batch.flags */
#define UOPS_BATCH_CONTIGUOUS	0x1ULL	/* areas physically contiguous */
#define UOPS_BATCH_MASK_LVT	0x2ULL	/* mask the LVT instead of CLI */
#define UOPS_BATCH_UNGUARDED	0x4ULL	/* one CPU: nothing ends a loop */
#define UOPS_BATCH_PARK		0x8ULL	/* other threads of the core are idle */
#define UOPS_BATCH_FLAGS	0xfULL

/*
 * A signal ends a batch with EINTR. What is done is done, and jobs_done counts it:
 * the same call goes on with the rest.
 */

struct uops_batch {
	__u32 size;
	__u32 cpu;		/* the caller is pinned there */
	__u64 flags;
	__u64 code;		/* pointers to user memory from here on */
	__u64 code_bytes;
	__u64 sets;		/* struct uops_counter_set[num_sets] */
	__u64 jobs;		/* struct uops_job[num_jobs] */
	__u64 results;		/* struct uops_result[num_jobs], written */
	__u64 samples;		/* __u64[num_samples], written */
	__u64 num_samples;
	__u32 num_sets;
	__u32 num_jobs;
	__u32 jobs_done;	/* jobs to leave out at the beginning; written */
	__u32 reserved0;
	__u64 r14_bytes;	/* of the first area; 0: UOPS_AREA_BYTES */
	__u64 reserved[3];
};

#define UOPS_IOC_INFO	_IOWR('u', 0xc0, struct uops_info)
#define UOPS_IOC_BATCH	_IOWR('u', 0xc1, struct uops_batch)

#endif /* _UAPI_UOPSCOPE_H */
