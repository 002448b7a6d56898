/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Into the blob and out of it: by RET, by a contained exception, or, when another
 * CPU has sent an NMI, by the NMI's return to uops_exit_forced.
 *
 * Nothing that the blob may have destroyed is used on the way out before it is
 * reloaded: everything is found relative to RIP in uops_run (one run at a time).
 */
#include <linux/linkage.h>
#include <asm/nospec-branch.h>
#include <asm/msr-index.h>
#include <asm/processor-flags.h>
#include "compat.h"
#include "run_offsets.h"

	.text

/* void uops_enter(void) */
SYM_FUNC_START(uops_enter)
	pushq	%rbp
	pushq	%rbx
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	movq	%rsp, uops_run+RUN_RSP(%rip)
	movl	$1, uops_run+RUN_INSIDE(%rip)
	/* a stack of its own: what recursion overwrites must not be the task's */
	movq	uops_run+RUN_CODE_STACK(%rip), %rsp
	movq	uops_run+RUN_ENTRY(%rip), %rax
	cmpl	$0, uops_run+RUN_SAMPLED(%rip)
	je	.Lcall
	/* from here to .Lexit an interrupt ends the run */
	sti
.Lcall:
	ANNOTATE_RETPOLINE_SAFE
	call	*%rax
	pushfq
	popq	uops_run+RUN_FLAGS(%rip)
	/* callee-saved registers and RSP must be what they were */
	cmpq	%rsp, uops_run+RUN_CODE_STACK(%rip)
	jne	.Lregisters
	movq	uops_run+RUN_RSP(%rip), %rax
	cmpq	0x00(%rax), %r15
	jne	.Lregisters
	cmpq	0x08(%rax), %r14
	jne	.Lregisters
	cmpq	0x10(%rax), %r13
	jne	.Lregisters
	cmpq	0x18(%rax), %r12
	jne	.Lregisters
	cmpq	0x20(%rax), %rbx
	jne	.Lregisters
	cmpq	0x28(%rax), %rbp
	je	.Lexit
.Lregisters:
	movl	$1, uops_run+RUN_STACK(%rip)
	jmp	.Lexit
SYM_INNER_LABEL(uops_exit_forced, SYM_L_GLOBAL)
	ANNOTATE_NOENDBR
	movl	$1, uops_run+RUN_FAULTED(%rip)
.Lexit:
	cli
	movq	uops_run+RUN_RSP(%rip), %rsp
	pushq	$2
	popfq
	movl	$MSR_GS_BASE, %ecx
	movl	uops_run+RUN_GS_BASE(%rip), %eax
	movl	uops_run+RUN_GS_BASE+4(%rip), %edx
	wrmsr
	movl	$0, uops_run+RUN_INSIDE(%rip)
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbx
	popq	%rbp
	RET
SYM_FUNC_END(uops_enter)
STACK_FRAME_NON_STANDARD uops_enter

/*
 * One stub of 16 bytes per vector: ENDBR, push the vector, common part. Vectors
 * from 128 on need the long form of PUSH, hence the alignment.
 */
	.balign 16
SYM_CODE_START(uops_stubs)
	vector = 0
	.rept 256
	.balign 16, 0xcc
	UNWIND_HINT_END_OF_STACK
	ENDBR
	pushq	$vector
	jmp	uops_common
	vector = vector + 1
	.endr
	.balign 16, 0xcc
SYM_CODE_END(uops_stubs)

/*
 * Stack: RCX, RAX, vector, [error code,] RIP, CS, RFLAGS, RSP, SS.
 * An exception in the blob ends it; anything else goes to the kernel's handler
 * with the stack as the CPU made it.
 *
 * INT n pushes no error code, whatever its vector. So the frame itself must tell:
 * bit 1 is set in RFLAGS always, in the kernel's CS never (it is part of RPL).
 *
 * An interrupt of a sampled run ends it, too, wherever it is. sample.c serves it.
 *
 * Nothing here is a return thunk: with call-depth tracking one would use GS, which
 * the blob may have destroyed.
 */
SYM_CODE_START_LOCAL(uops_common)
	UNWIND_HINT_END_OF_STACK
	pushq	%rax
	pushq	%rcx
	xorl	%eax, %eax
	testb	$2, 40(%rsp)
	setz	%al
	movq	24(%rsp, %rax, 8), %rcx
	movq	%rcx, uops_run+RUN_RIP(%rip)
	subq	uops_run+RUN_AREA(%rip), %rcx
	/* with the pages of INT3 before and behind; INT3 reports the address behind it */
	addq	$0x1000, %rcx
	cmpq	$0x102000, %rcx
	ja	.Lelsewhere
	subq	$0x1000, %rcx
	cmpl	$6, 16(%rsp)
	je	.Lundefined
	cmpl	$31, 16(%rsp)
	jbe	.Lcontain
	cmpl	$0, uops_run+RUN_SAMPLED(%rip)
	jne	.Lcontain
	/* an interrupt: ours if INT n is what stands before RIP */
	cmpq	$2, %rcx
	jl	.Lforward
	movq	uops_run+RUN_AREA(%rip), %rax
	cmpb	$0xcd, -2(%rax, %rcx)
	jne	.Lforward
	movb	-1(%rax, %rcx), %al
	cmpb	16(%rsp), %al
	jne	.Lforward
	jmp	.Lcontain
.Lundefined:
	/* a test may emulate RDPMC where the CPU has none (module parameter) */
	cmpb	$0, uops_leave_rdpmc(%rip)
	je	.Lcontain
	movq	uops_run+RUN_AREA(%rip), %rax
	cmpw	$0x330f, (%rax, %rcx)
	je	.Lforward
.Lcontain:
	movq	%rcx, uops_run+RUN_OFFSET(%rip)
	movq	%r15, uops_run+RUN_R15(%rip)
	movl	16(%rsp), %ecx
	movl	%ecx, uops_run+RUN_VECTOR(%rip)
	xorl	%eax, %eax
	testb	$2, 40(%rsp)
	setz	%al
	negq	%rax
	andq	24(%rsp), %rax
	movq	%rax, uops_run+RUN_ERROR_CODE(%rip)
	movq	%cr2, %rax
	movq	%rax, uops_run+RUN_CR2(%rip)
	leaq	uops_exit_forced(%rip), %rcx
	pushq	%rcx
	ANNOTATE_UNRET_SAFE
	ret
	int3
.Lelsewhere:
	/*
	 * With interrupts off only the blob can have got there, unless the
	 * exception hit an NMI handler, whose stack is in the CPU entry area.
	 */
	cmpl	$0, uops_run+RUN_INSIDE(%rip)
	je	.Lforward
	cmpl	$31, 16(%rsp)
	ja	.Linterrupt
	cmpl	$6, 16(%rsp)
	je	.Lmend
.Lnot_mended:
	movq	48(%rsp, %rax, 8), %rcx
	sarq	$39, %rcx
	cmpq	$-4, %rcx
	je	.Lforward
	cmpl	$0, uops_run+RUN_STRICT(%rip)
	jne	.Lastray
	/* with interrupts on: where there is no code, no handler can have got */
	cmpl	$14, 16(%rsp)
	jne	.Lforward
	movq	%cr2, %rcx
	cmpq	%rcx, 24(%rsp, %rax, 8)
	jne	.Lforward
.Lastray:
	movq	$-1, %rcx
	jmp	.Lcontain
.Linterrupt:
	cmpl	$0, uops_run+RUN_SAMPLED(%rip)
	jne	.Lastray
	jmp	.Lforward
.Lmend:
	/*
	 * The kernel's NMI handler begins with RDGSBASE. If the blob has switched
	 * it off, switch it on, and let the handler go on.
	 */
	btq	$X86_CR4_FSGSBASE_BIT, uops_run+RUN_CR4(%rip)
	jnc	.Lnot_mended
	movq	%cr4, %rcx
	btsq	$X86_CR4_FSGSBASE_BIT, %rcx
	jc	.Lnot_mended
	movq	%rcx, %cr4
	movl	$1, uops_run+RUN_MENDED(%rip)
	popq	%rcx
	popq	%rax
	addq	$8, %rsp
	iretq
.Lforward:
	movl	16(%rsp), %ecx
	leaq	uops_handlers(%rip), %rax
	movq	(%rax, %rcx, 8), %rax
	movq	%rax, 16(%rsp)
	popq	%rcx
	popq	%rax
	ANNOTATE_UNRET_SAFE
	ret
	int3
SYM_CODE_END(uops_common)
