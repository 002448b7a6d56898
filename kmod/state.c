// SPDX-License-Identifier: GPL-2.0
/*
 * What a blob may have changed and the kernel relies on: saved before each run,
 * compared and put back after it. The IDT is contain.c's, the FPU registers are
 * the kernel's (kernel_fpu_begin), and entry.S puts GS base back already. adjust.c
 * has what is set otherwise on purpose while a blob runs.
 *
 * Sources: Intel SDM volume 3, 2.5 (control registers), 17.2 (debug registers)
 * and volume 4 (MSRs); AMD APM volume 2, appendix A.
 */
#include <asm/desc.h>
#include <asm/fpu/xcr.h>
#include <asm/msr-index.h>
#include <asm/processor-flags.h>
#include <asm/segment.h>
#include "compat.h"
#include "uopscope.h"

#define XCR0		0
#define S_CET		0x6a2
#define ENDBR_EN	BIT_ULL(2)

/* MSRs that the kernel relies on; those that the CPU lacks are left out. */
static const u32 msr_list[UOPS_NUM_MSRS] = {
	MSR_FS_BASE, MSR_KERNEL_GS_BASE, MSR_EFER, MSR_STAR, MSR_LSTAR,
	MSR_CSTAR, MSR_SYSCALL_MASK, MSR_IA32_SYSENTER_CS,
	MSR_IA32_SYSENTER_ESP, MSR_IA32_SYSENTER_EIP, MSR_TSC_AUX,
	MSR_IA32_DEBUGCTLMSR, MSR_IA32_CR_PAT, MSR_IA32_MISC_ENABLE,
	MSR_IA32_XSS, MSR_IA32_TSC_ADJUST, MSR_IA32_XFD_ERR,
	0x6a0 /* U_CET */, S_CET,
};

static bool msr_present[UOPS_NUM_MSRS];

#define read_reg(reg) ({						\
	u64 __value;							\
	asm volatile("mov %%" #reg ", %0" : "=r" (__value));		\
	__value;							\
})
/* put_back_REG() writes back what differs; true if it did. */
#define DEFINE_PUT_BACK(reg)						\
static bool put_back_##reg(u64 value)					\
{									\
	if (read_reg(reg) == value)					\
		return false;						\
	asm volatile("mov %0, %%" #reg : : "r" (value) : "memory");	\
	return true;							\
}

DEFINE_PUT_BACK(cr0)
DEFINE_PUT_BACK(cr3)
DEFINE_PUT_BACK(cr4)
DEFINE_PUT_BACK(cr8)
DEFINE_PUT_BACK(db0)
DEFINE_PUT_BACK(db1)
DEFINE_PUT_BACK(db2)
DEFINE_PUT_BACK(db3)
DEFINE_PUT_BACK(db6)
DEFINE_PUT_BACK(db7)

void uops_state_init(void)
{
	u64 value;
	int i;

	for (i = 0; i < UOPS_NUM_MSRS; i++)
		msr_present[i] = !rdmsrq_safe(msr_list[i], &value);
}

static u32 read_pkru(void)
{
	u32 eax, edx;

	asm volatile(".byte 0x0f, 0x01, 0xee" : "=a" (eax), "=d" (edx) : "c" (0));
	return eax;
}

static void write_pkru_raw(u32 value)
{
	asm volatile(".byte 0x0f, 0x01, 0xef" : : "a" (value), "c" (0), "d" (0));
}

static void save_segments(struct uops_state *state)
{
	savesegment(ds, state->ds);
	savesegment(es, state->es);
	savesegment(fs, state->fs);
	savesegment(gs, state->gs);
	savesegment(ss, state->ss);
	asm volatile("sldt %0" : "=m" (state->ldt));
	asm volatile("sgdt %0" : "=m" (state->gdt));
}

static void save_debug(struct uops_state *state)
{
	state->dr[0] = read_reg(db0);
	state->dr[1] = read_reg(db1);
	state->dr[2] = read_reg(db2);
	state->dr[3] = read_reg(db3);
	state->dr[6] = read_reg(db6);
	state->dr[7] = read_reg(db7);
}

void uops_state_save(struct uops_state *state)
{
	int i;

	state->cr0 = read_reg(cr0);
	state->cr3 = read_reg(cr3);
	state->cr4 = read_reg(cr4);
	state->cr8 = read_reg(cr8);
	if (state->cr4 & X86_CR4_OSXSAVE)
		state->xcr0 = xgetbv(XCR0);
	if (state->cr4 & X86_CR4_PKE)
		state->pkru = read_pkru();
	save_debug(state);
	save_segments(state);
	for (i = 0; i < UOPS_NUM_MSRS; i++)
		if (msr_present[i])
			rdmsrq_safe(msr_list[i], &state->msr[i]);
	/* indirect branches of the blob need no ENDBR */
	if (state->cr4 & X86_CR4_CET)
		wrmsrq_safe(S_CET, state->msr[UOPS_NUM_MSRS - 1] & ~ENDBR_EN);
}

/*
 * CR4.PCIDE can be set only while CR3 names PCID 0 (SDM volume 3, 4.10.1), so it
 * comes between two writes of CR3 where the blob has cleared it.
 */
static bool put_back_paging(const struct uops_state *state)
{
	bool changed = false;

	if (state->cr4 & ~read_reg(cr4) & X86_CR4_PCIDE)
		changed |= put_back_cr3(state->cr3 & ~X86_CR3_PCID_MASK);
	changed |= put_back_cr4(state->cr4);
	changed |= put_back_cr3(state->cr3);
	return changed;
}

static bool restore_control(const struct uops_state *state)
{
	bool changed = false;

	changed |= put_back_cr0(state->cr0);
	changed |= put_back_paging(state);
	changed |= put_back_cr8(state->cr8);
	if ((state->cr4 & X86_CR4_OSXSAVE) && xgetbv(XCR0) != state->xcr0) {
		xsetbv(XCR0, state->xcr0);
		changed = true;
	}
	if ((state->cr4 & X86_CR4_PKE) && read_pkru() != state->pkru) {
		write_pkru_raw(state->pkru);
		changed = true;
	}
	return changed;
}

static bool restore_debug(const struct uops_state *state)
{
	bool changed = put_back_db7(state->dr[7]);

	changed |= put_back_db0(state->dr[0]);
	changed |= put_back_db1(state->dr[1]);
	changed |= put_back_db2(state->dr[2]);
	changed |= put_back_db3(state->dr[3]);
	changed |= put_back_db6(state->dr[6]);
	return changed;
}

static bool restore_tables(const struct uops_state *state)
{
	struct uops_state now;
	bool changed = false;

	save_segments(&now);
	if (now.gdt.address != state->gdt.address ||
	    now.gdt.size != state->gdt.size) {
		asm volatile("lgdt %0" : : "m" (state->gdt));
		changed = true;
	}
	if (now.ldt != state->ldt) {
		asm volatile("lldt %0" : : "m" (state->ldt));
		changed = true;
	}
	return changed;
}

/* Loading GS overwrites its base, which everything in the kernel needs. */
static void load_gs(u16 selector, u64 base)
{
	asm volatile("movw %w[selector], %%gs\n\twrmsr"
		     : : [selector] "r" ((u32)selector), "c" (MSR_GS_BASE),
			 "a" ((u32)base), "d" ((u32)(base >> 32)) : "memory");
}

static bool restore_segments(const struct uops_state *state)
{
	struct uops_state now;

	save_segments(&now);
	if (now.ds == state->ds && now.es == state->es && now.fs == state->fs &&
	    now.gs == state->gs && now.ss == state->ss)
		return false;
	/* a contained exception leaves SS null */
	asm volatile("movw %w0, %%ss" : : "r" ((u32)state->ss) : "memory");
	asm volatile("movw %w0, %%ds" : : "r" ((u32)state->ds) : "memory");
	asm volatile("movw %w0, %%es" : : "r" ((u32)state->es) : "memory");
	if (now.fs != state->fs)
		asm volatile("movw %w0, %%fs" : : "r" ((u32)state->fs) : "memory");
	if (now.gs != state->gs)
		load_gs(state->gs, uops_run.gs_base);
	return now.ds != state->ds || now.es != state->es || now.fs != state->fs ||
	       now.gs != state->gs;
}

static bool restore_msrs(const struct uops_state *state)
{
	bool changed = false;
	u64 value;
	int i;

	for (i = 0; i < UOPS_NUM_MSRS; i++) {
		if (!msr_present[i] || rdmsrq_safe(msr_list[i], &value) ||
		    value == state->msr[i])
			continue;
		wrmsrq_safe(msr_list[i], state->msr[i]);
		changed |= msr_list[i] != S_CET;
	}
	return changed;
}

/* Returns UOPS_CHANGED_*: what the blob had changed. */
u32 uops_state_restore(const struct uops_state *state)
{
	u32 changed = 0;

	if (restore_control(state))
		changed |= UOPS_CHANGED_CONTROL;
	if (restore_tables(state))
		changed |= UOPS_CHANGED_TABLES;
	if (restore_segments(state))
		changed |= UOPS_CHANGED_SEGMENTS;
	if (restore_msrs(state))
		changed |= UOPS_CHANGED_MSRS;
	if (uops_quiet_restore_apic())
		changed |= UOPS_CHANGED_MSRS;
	if (restore_debug(state))
		changed |= UOPS_CHANGED_DEBUG;
	return changed;
}
