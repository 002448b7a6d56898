/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the parts of the module share.
 *
 * Locking: one process has the device open (uops_device.opened), and one thread
 * at a time is in a batch (uops_device.lock). Everything below belongs to the
 * batch that is running, so nothing else is locked. uops_run.state is changed by
 * the guard's timer on another CPU, too: both change it by cmpxchg.
 */
#ifndef UOPSCOPE_H
#define UOPSCOPE_H

#include <linux/atomic.h>
#include <linux/types.h>
#include <asm/desc_defs.h>
#include "uopscope_uapi.h"

#define UOPS_NUM_AREAS	5
#define UOPS_NUM_MSRS	19
#define UOPS_MAX_PROG	32
#define UOPS_MAX_FIXED	16

/* One run of a blob; entry.S knows the first fields (run_offsets.h). */
struct uops_run {
	u64 rsp;
	u64 gs_base;
	u64 flags;		/* RFLAGS at a normal exit */
	u64 offset;
	u64 error_code;
	u64 cr2;
	u32 vector;
	u32 faulted;
	u32 stack;		/* RSP or a callee-saved register differs */
	u32 inside;
	u32 strict;		/* interrupts are off in the blob */
	u32 forced;		/* an NMI ended it */
	u64 rip;
	u64 area;
	u64 code_stack;		/* RSP that the blob starts with, but for the return address */
	u64 cr4;		/* at the start */
	u32 mended;		/* CR4.FSGSBASE was put back for a handler of the kernel's */
	u32 on_demand;		/* with the page tables of demand.c */
	u64 entry;		/* of the blob, which begins at area */
	u64 r15;		/* where an exception or interrupt ended it */
	u32 sampled;		/* interrupts are on in the blob, and any ends it */
	/* from here on C only */
	u64 blob_ns;
	u64 quiet_ns;
	u32 changed;
	u32 timed_out;
	int cpu;
	atomic_t state;
	u64 started_ns;		/* state UOPS_RUNNING only */
	u64 limit_ns;
	u64 landed;		/* sampled: offset where it came, or UOPS_NO_OFFSET */
};

enum { UOPS_IDLE, UOPS_RUNNING, UOPS_KILLING, UOPS_KILLED };

extern struct uops_run uops_run;

/* entry.S, area.S */
extern u8 uops_area[];
extern u8 uops_stubs[];
extern u8 uops_exit_forced[];
void uops_enter(void);

/* code.c: the executable area */
int uops_code_init(void);
void uops_code_exit(void);
int uops_code_install(u64 user_code, u32 bytes, u64 context);
void uops_code_place(bool on_demand);
u64 uops_code_physical(u32 page);
bool uops_code_poison(u32 offset);
void uops_code_clear(void);

/* areas.c: what the code under test may write */
struct uops_areas {
	void *context;
	void *area[UOPS_NUM_AREAS];
	struct page **pages[UOPS_NUM_AREAS];
	size_t r14_bytes;	/* of the first one; the others have UOPS_AREA_BYTES */
	bool contiguous;
};

int uops_areas_alloc(struct uops_areas *areas, bool contiguous, size_t r14_bytes);
void uops_areas_free(struct uops_areas *areas);
void uops_areas_clean(struct uops_areas *areas);
void uops_areas_fill(struct uops_areas *areas, const struct uops_job *job,
		     const struct uops_counter_set *set);

/* demand.c: memory that is mapped when code touches it */
int uops_demand_init(void);
void uops_demand_exit(void);
void uops_demand_clear(void);
int uops_demand_begin(const struct uops_job *job);
void *uops_demand_page(void);
u32 uops_demand_pages(void);
bool uops_demand_serve(void);
void uops_demand_load(void);
void uops_demand_unload(void);

/* contain.c: a run with faults contained and state put back */
int uops_contain_init(void);
void uops_contain_exit(void);
int uops_contain_possible(void);
void uops_contain_sample(bool sampled);
void uops_contain_prepare(void);
void uops_contain_run(void);
extern u64 uops_handlers[];
extern bool uops_leave_rdpmc;

/* state.c: what a blob may have changed */
struct uops_state {
	u64 cr0, cr3, cr4, cr8, xcr0;
	u32 pkru;
	u64 dr[8];
	u64 msr[UOPS_NUM_MSRS];
	u16 ds, es, fs, gs, ss, ldt;
	struct desc_ptr gdt;
};

/* adjust.c: settings of the kernel that would change what is measured */
struct uops_adjusted {
	u64 saved[2];
	u64 set[2];
};

u64 uops_adjust_prepare(void);
void uops_adjust_begin(struct uops_adjusted *adjusted);
bool uops_adjust_end(const struct uops_adjusted *adjusted);

void uops_state_init(void);
void uops_state_save(struct uops_state *state);
u32 uops_state_restore(const struct uops_state *state);

/* quiet.c: keeping interrupts away */
struct uops_quiet {
	unsigned long flags;
	u32 lvt[7];
	u64 deadline;
	bool mask_lvt;
	u32 divide;		/* sample.c: of the timer, which it takes */
	bool timer_taken;
};

bool uops_quiet_has_apic(void);
void uops_quiet_prepare(void);
bool uops_quiet_restore_apic(void);
void uops_quiet_begin(struct uops_quiet *quiet, bool mask_lvt);
void uops_quiet_end(struct uops_quiet *quiet);

/* sample.c: interrupts a run at a random time */
int uops_sample_check(const struct uops_batch *batch, const struct uops_job *job);
void uops_sample_draw(u64 delay_ns);
void uops_sample_begin(struct uops_quiet *quiet);
void uops_sample_arm(void);
void uops_sample_end(struct uops_quiet *quiet);

/* guard.c: ends what does not end */
extern bool uops_use_nmi;
int uops_guard_init(void);
void uops_guard_exit(void);
int uops_guard_cpu(int cpu);
int uops_guard_start(u64 min_limit_ns);
void uops_guard_stop(void);
void uops_guard_enter(u64 limit_ns);
void uops_guard_leave(void);

/* park.c: other threads of the core are idle */
int uops_park_begin(int cpu);
void uops_park_end(void);

/* pmu.c: event selection */
struct uops_pmu {
	u32 kind;
	u32 version;
	u32 prog_mask;		/* bit n: there is a counter n */
	u32 fixed_mask;
	u32 width_prog;
	u32 width_fixed;
	u64 allowed;		/* bits of a counter's config */
	u64 features;
	bool managed;		/* the kernel's allocator knows its registers */
};

extern struct uops_pmu uops_pmu;
void uops_pmu_init(void);
int uops_pmu_reserve(void);
void uops_pmu_release(void);
int uops_pmu_check(const struct uops_counter_set *set);
int uops_pmu_program(const struct uops_counter_set *set);
u64 uops_pmu_mask(const struct uops_counter *counter);

/* registers.c: what events and counters outside of the core need */
u32 uops_register_width(u32 msr);
int uops_registers_check(const struct uops_counter_set *set);
int uops_registers_program(const struct uops_counter_set *set);
void uops_registers_restore(void);

/* msr.c: noinline, so that a test can put a probe on each */
int uops_rdmsr(u32 msr, u64 *value);
int uops_wrmsr(u32 msr, u64 value);
void uops_cpuid(u32 leaf, u32 subleaf, u32 regs[4]);
unsigned long uops_cr4(void);
u32 uops_vendor(void);

/* batch.c */
int uops_batch(struct uops_batch *batch);
int uops_batch_init(void);
void uops_batch_exit(void);
void uops_batch_close(void);

#endif /* UOPSCOPE_H */
