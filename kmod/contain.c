// SPDX-License-Identifier: GPL-2.0
/*
 * One run of the blob with its faults contained.
 *
 * While it runs the CPU uses a private IDT: a copy of the live one whose gates
 * lead to the stubs of entry.S, exceptions on the stack IST1. An exception of the
 * blob makes the run return here; anything else goes to the kernel's handler.
 * The gates of NMI, #DF, #MC, #VE and #VC stay the kernel's.
 *
 * This protects against accidents, not against malice: the blob runs in ring 0.
 */
#include <linux/build_bug.h>
#include <linux/delay.h>
#include <linux/irqflags.h>
#include <linux/slab.h>
#include <linux/stddef.h>
#include <linux/timekeeping.h>
#include <linux/vmalloc.h>
#include <asm/desc.h>
#include <asm/fpu/api.h>
#include <asm/msr-index.h>
#include <asm/processor-flags.h>
#include <asm/sync_core.h>
#include <asm/trapnr.h>
#include "compat.h"
#include "run_offsets.h"
#include "uopscope.h"

#define NUM_VECTORS	256
#define STUB_BYTES	16
#define IST1		1
#define CODE_STACK_BYTES	(16 * PAGE_SIZE)
#define CR4_FRED	BIT_ULL(32)
#define FLAGS_KEPT	(X86_EFLAGS_DF | X86_EFLAGS_TF | X86_EFLAGS_AC | \
			 X86_EFLAGS_NT | X86_EFLAGS_IOPL)

struct uops_run uops_run;
bool uops_leave_rdpmc;

/* entry.S forwards through it: the kernel's handler of each vector */
u64 uops_handlers[NUM_VECTORS];

static gate_desc *private_idt;
static void *code_stack;	/* vmalloc: unmapped pages below and above */
static struct uops_state state;
static struct uops_adjusted adjusted;

static void check_offsets(void)
{
	BUILD_BUG_ON(offsetof(struct uops_run, rsp) != RUN_RSP);
	BUILD_BUG_ON(offsetof(struct uops_run, gs_base) != RUN_GS_BASE);
	BUILD_BUG_ON(offsetof(struct uops_run, flags) != RUN_FLAGS);
	BUILD_BUG_ON(offsetof(struct uops_run, offset) != RUN_OFFSET);
	BUILD_BUG_ON(offsetof(struct uops_run, error_code) != RUN_ERROR_CODE);
	BUILD_BUG_ON(offsetof(struct uops_run, cr2) != RUN_CR2);
	BUILD_BUG_ON(offsetof(struct uops_run, vector) != RUN_VECTOR);
	BUILD_BUG_ON(offsetof(struct uops_run, faulted) != RUN_FAULTED);
	BUILD_BUG_ON(offsetof(struct uops_run, stack) != RUN_STACK);
	BUILD_BUG_ON(offsetof(struct uops_run, inside) != RUN_INSIDE);
	BUILD_BUG_ON(offsetof(struct uops_run, strict) != RUN_STRICT);
	BUILD_BUG_ON(offsetof(struct uops_run, forced) != RUN_FORCED);
	BUILD_BUG_ON(offsetof(struct uops_run, rip) != RUN_RIP);
	BUILD_BUG_ON(offsetof(struct uops_run, area) != RUN_AREA);
	BUILD_BUG_ON(offsetof(struct uops_run, code_stack) != RUN_CODE_STACK);
	BUILD_BUG_ON(offsetof(struct uops_run, cr4) != RUN_CR4);
	BUILD_BUG_ON(offsetof(struct uops_run, mended) != RUN_MENDED);
	BUILD_BUG_ON(offsetof(struct uops_run, entry) != RUN_ENTRY);
	BUILD_BUG_ON(offsetof(struct uops_run, r15) != RUN_R15);
	BUILD_BUG_ON(offsetof(struct uops_run, sampled) != RUN_SAMPLED);
}

int uops_contain_init(void)
{
	check_offsets();
	private_idt = (gate_desc *)get_zeroed_page(GFP_KERNEL);
	code_stack = vzalloc(CODE_STACK_BYTES);
	if (!private_idt || !code_stack) {
		uops_contain_exit();
		return -ENOMEM;
	}
	uops_run.code_stack = (unsigned long)code_stack + CODE_STACK_BYTES - 64;
	return 0;
}

void uops_contain_exit(void)
{
	free_page((unsigned long)private_idt);
	private_idt = NULL;
	vfree(code_stack);
	code_stack = NULL;
}

/* Faults can be contained only where the IDT is what delivers them. */
int uops_contain_possible(void)
{
	if (boot_cpu_has(X86_FEATURE_XENPV))
		return -EOPNOTSUPP;
	if (uops_cr4() & CR4_FRED)
		return -EOPNOTSUPP;
	return 0;
}

static bool keeps_gate(int vector)
{
	switch (vector) {
	case X86_TRAP_NMI:
	case X86_TRAP_DF:
	case X86_TRAP_MC:
	case X86_TRAP_VE:
	case X86_TRAP_VC:
		return true;
	default:
		return false;
	}
}

static void lead_to_stub(gate_desc *gate, int vector)
{
	unsigned long stub = (unsigned long)uops_stubs + vector * STUB_BYTES;

	uops_handlers[vector] = gate_offset(gate);
	gate->offset_low = (u16)stub;
	gate->offset_middle = (u16)(stub >> 16);
	gate->offset_high = (u32)(stub >> 32);
	gate->bits.type = GATE_INTERRUPT;
	if (vector < FIRST_EXTERNAL_VECTOR)
		gate->bits.ist = IST1;
}

/* Before a batch, on its CPU: copy the live IDT, and put the stubs into the copy. */
void uops_contain_prepare(void)
{
	struct desc_ptr live;
	int vector;

	store_idt(&live);
	memcpy(private_idt, (void *)live.address, PAGE_SIZE);
	for (vector = 0; vector < NUM_VECTORS; vector++)
		if (private_idt[vector].bits.p && !keeps_gate(vector))
			lead_to_stub(&private_idt[vector], vector);
}

/*
 * Before a job. Interrupts of a sampled run come on the stack of exceptions, since the
 * blob may have destroyed its own. Others go to the kernel's handlers, which need a
 * stack that they can be preempted on.
 */
void uops_contain_sample(bool sampled)
{
	int vector;

	uops_run.sampled = sampled;
	for (vector = FIRST_EXTERNAL_VECTOR; vector < NUM_VECTORS; vector++)
		private_idt[vector].bits.ist = sampled ? IST1 : 0;
}

static u32 changed_flags(void)
{
	u64 interrupts = uops_run.strict && !uops_run.sampled ? 0 : X86_EFLAGS_IF;
	u32 changed = 0;

	if (uops_run.faulted)
		return 0;
	if (uops_run.flags & FLAGS_KEPT)
		changed |= UOPS_CHANGED_FLAGS;
	if ((uops_run.flags & X86_EFLAGS_IF) != interrupts)
		changed |= UOPS_CHANGED_IF;
	return changed;
}

static void prepare(void)
{
	uops_run.faulted = 0;
	uops_run.forced = 0;
	uops_run.stack = 0;
	uops_run.mended = 0;
	uops_run.cr4 = __read_cr4();
	uops_run.vector = 0;
	uops_run.error_code = 0;
	uops_run.cr2 = 0;
	uops_run.offset = UOPS_NO_OFFSET;
	rdmsrq(MSR_GS_BASE, uops_run.gs_base);
}

/* With the private IDT in place; interrupts are off before and after. */
static void enter(void)
{
	u64 before = ktime_get_mono_fast_ns();

	if (!uops_run.strict)
		raw_local_irq_enable();
	if (uops_run.sampled)
		uops_sample_arm();
	uops_enter();
	uops_run.blob_ns = ktime_get_mono_fast_ns() - before;
}

/*
 * Interrupts are off and the FPU is the kernel's. What happened is in uops_run.
 */
void uops_contain_run(void)
{
	struct desc_ptr live, left, ours = {
		.size = PAGE_SIZE - 1,
		.address = (unsigned long)private_idt,
	};

	store_idt(&live);
	if (uops_run.on_demand)
		uops_demand_load();
	prepare();
	uops_state_save(&state);
	uops_adjust_begin(&adjusted);
	sync_core();
	load_idt(&ours);
	enter();
	store_idt(&left);
	uops_run.changed = uops_state_restore(&state) | changed_flags();
	if (left.address != ours.address || left.size != ours.size)
		uops_run.changed |= UOPS_CHANGED_TABLES;
	load_idt(&live);
	if (uops_adjust_end(&adjusted))
		uops_run.changed |= UOPS_CHANGED_MSRS;
	if (uops_run.on_demand)
		uops_demand_unload();
	if (uops_run.mended)
		uops_run.changed |= UOPS_CHANGED_CONTROL;
	if (uops_run.stack)
		uops_run.changed |= UOPS_CHANGED_STACK;
}
