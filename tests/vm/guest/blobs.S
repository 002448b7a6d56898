/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code that goes wrong, one blob per kind, with what must be reported of it.
 *
 * BLOB name, status, vector, changed begins one: the status, the vector and the
 * UOPS_CHANGED bits that are expected. A label `at_NAME` is the offset that must
 * be reported; without one UOPS_NO_OFFSET must be. END ends it.
 *
 * What is expected is what the manuals say. ALSO name, ... is another outcome that
 * is right: on a CPU without some feature, or with one more, or under QEMU's TCG, which
 * ignores MSRs that are not there, raises no #XM, and raises #GP for a stack address
 * that is not canonical. A name that begins with only_ runs only if it is asked for.
 */
#define OK 1
#define FAULT 2
#define TIME_OUT 3
#define STATE 5

#define FLAGS 0x01
#define CONTROL 0x02
#define DEBUG 0x04
#define SEGMENTS 0x08
#define TABLES 0x10
#define MSRS 0x20
#define STACK 0x40
#define IF 0x80

	.macro BLOB name:req, status:req, vector=0, changed=0
	.section .rodata.strings, "a"
string_\name:
	.asciz	"\name"
	.set	status_\name, \status
	.set	vector_\name, \vector
	.set	changed_\name, \changed
	.section .rodata.code, "a"
	.balign 16
start_\name:
	.quad	0
	.endm

	.macro END name:req
end_\name:
	.section .rodata.blobs, "a"
	.quad	string_\name, start_\name, end_\name
	.long	status_\name, vector_\name, changed_\name
	.ifdef	at_\name
	.long	at_\name - start_\name
	.else
	.long	-1
	.endif
	.endm

	.macro ALSO name:req, status:req, vector=0, changed=0
	.section .rodata.also, "a"
	.quad	string_\name
	.long	\status, \vector, \changed, 0
	.section .rodata.code, "a"
	.endm

	/* rdx = the context, rax = one of its areas */
	.macro CONTEXT name:req, field=0x40
	movq	start_\name(%rip), %rdx
	movq	\field(%rdx), %rax
	.endm

	/* write MSR, value in edx:eax */
	.macro SETMSR msr:req, high=0, low=0
	movl	$\msr, %ecx
	movl	$\low, %eax
	movl	$\high, %edx
	wrmsr
	.endm

	.section .rodata.also, "a"
	.globl	also
also:
	.section .rodata.blobs, "a"
	.globl	blobs
blobs:

/* --- what is well */
BLOB good, OK
	ret
END good
BLOB good_stack, OK
	pushq	%rax
	popq	%rax
	ret
END good_stack
BLOB port_write, OK
	movb	$0, %al
	outb	%al, $0x80
	ret
END port_write
BLOB cr3_same, OK
	movq	%cr3, %rax
	movq	%rax, %cr3
	ret
END cr3_same

/* --- exceptions, one by one */
BLOB ud2, FAULT, 6
	nop
at_ud2:	ud2
END ud2
BLOB divide, FAULT, 0
	xorl	%ecx, %ecx
at_divide:
	divl	%ecx
END divide
BLOB divide_overflow, FAULT, 0
	movl	$-1, %edx
	movl	$1, %ecx
at_divide_overflow:
	divl	%ecx
END divide_overflow
BLOB int3, FAULT, 3
	int3
at_int3:
END int3
BLOB invalid_opcode, FAULT, 6
at_invalid_opcode:
	.byte	0x06
	ret
END invalid_opcode
BLOB non_canonical_load, FAULT, 13
	movabsq	$0x1234567890abcdef, %rax
at_non_canonical_load:
	movq	(%rax), %rax
	ret
END non_canonical_load
BLOB null_load, FAULT, 14
	xorl	%eax, %eax
at_null_load:
	movq	(%rax), %rax
	ret
END null_load
BLOB null_store, FAULT, 14
	xorl	%eax, %eax
at_null_store:
	movq	%rax, (%rax)
	ret
END null_store
BLOB kernel_load, FAULT, 14
	movq	$0xfffffffffffff000, %rax
at_kernel_load:
	movq	(%rax), %rax
	ret
END kernel_load
BLOB user_load, FAULT, 14
	movl	$0x10000, %eax
at_user_load:
	movq	(%rax), %rax
	ret
END user_load
BLOB own_text_store, FAULT, 14
at_own_text_store:
	movb	$0x90, start_own_text_store(%rip)
	ret
END own_text_store
BLOB self_modification, FAULT, 14
	movb	$0x90, %al
at_self_modification:
	movb	%al, 1f(%rip)
1:	ud2
END self_modification
BLOB module_text_store, FAULT, 14
	leaq	start_module_text_store(%rip), %rax
	addq	$0x100800, %rax
at_module_text_store:
	movl	$0x90909090, (%rax)
	ret
END module_text_store
BLOB guard_above, FAULT, 14
	CONTEXT	guard_above
	addq	$0x80000, %rax
at_guard_above:
	movq	%rdx, (%rax)
	ret
END guard_above
BLOB guard_below, FAULT, 14
	CONTEXT	guard_below, 0x48
	subq	$0x80008, %rax
at_guard_below:
	movq	%rdx, (%rax)
	ret
END guard_below
BLOB guard_straddled, FAULT, 14
	CONTEXT	guard_straddled, 0x50
	addq	$0x7fffc, %rax
at_guard_straddled:
	movq	%rdx, (%rax)
	ret
END guard_straddled
BLOB string_store, FAULT, 14
	CONTEXT	string_store, 0x58
	movq	%rax, %rdi
	movq	$-1, %rcx
at_string_store:
	rep stosb
	ret
END string_store
BLOB unaligned, FAULT, 13
	CONTEXT	unaligned
at_unaligned:
	movaps	1(%rax), %xmm0
	ret
END unaligned
BLOB fxrstor_unaligned, FAULT, 13
	CONTEXT	fxrstor_unaligned
at_fxrstor_unaligned:
	fxrstor	1(%rax)
	ret
END fxrstor_unaligned
BLOB x87_error, FAULT, 16
	CONTEXT	x87_error
	fninit
	movw	$0x340, (%rax)
	fldcw	(%rax)
	fld1
	fldz
	fdivrp
at_x87_error:
	fwait
	ret
END x87_error
BLOB simd_error, FAULT, 19
ALSO simd_error, OK
	CONTEXT	simd_error
	movl	$0x1d80, (%rax)
	ldmxcsr	(%rax)
	xorps	%xmm1, %xmm1
	movl	$0x3f800000, (%rax)
	movss	(%rax), %xmm0
at_simd_error:
	divss	%xmm1, %xmm0
	ret
END simd_error

/* --- the stack */
BLOB rsp_zero, FAULT, 14
	xorl	%esp, %esp
at_rsp_zero:
	pushq	%rax
END rsp_zero
BLOB rsp_zero_ud, FAULT, 6
	xorl	%esp, %esp
at_rsp_zero_ud:
	ud2
END rsp_zero_ud
BLOB rsp_non_canonical, FAULT, 12
ALSO rsp_non_canonical, FAULT, 13
	movabsq	$0x1234567890abcdef, %rsp
at_rsp_non_canonical:
	pushq	%rax
END rsp_non_canonical
BLOB rsp_user, FAULT, 14
	movl	$0x10000, %esp
at_rsp_user:
	pushq	%rax
END rsp_user
BLOB rsp_text, FAULT, 14
	leaq	end_rsp_text(%rip), %rsp
at_rsp_text:
	pushq	%rax
END rsp_text
BLOB stack_switch, FAULT, 6
	CONTEXT	stack_switch, 0x60
	movq	%rax, %rsp
	pushq	%rax
	popq	%rax
at_stack_switch:
	ud2
END stack_switch
BLOB stack_overflow, FAULT, 14
	CONTEXT	stack_overflow, 0x60
	movq	%rax, %rsp
at_stack_overflow:
	pushq	%rax
	jmp	at_stack_overflow
END stack_overflow
BLOB recursion, FAULT, 14
	CONTEXT	recursion, 0x60
	movq	%rax, %rsp
at_recursion:
	call	at_recursion
END recursion
/* the stack that the code starts on, between unmapped pages */
BLOB rsp_first_push, FAULT, 14
at_rsp_first_push:
	pushq	%rax
	jmp	at_rsp_first_push
END rsp_first_push
BLOB rsp_first_call, FAULT, 14
at_rsp_first_call:
	call	at_rsp_first_call
END rsp_first_call
BLOB rsp_first_pop, FAULT, 14
at_rsp_first_pop:
	popq	%rax
	jmp	at_rsp_first_pop
END rsp_first_pop
BLOB rsp_left, STATE, 0, STACK
	popq	%rcx
	CONTEXT	rsp_left, 0x60
	movq	%rax, %rsp
	xorl	%ebx, %ebx
	xorl	%ebp, %ebp
	xorl	%r12d, %r12d
	xorl	%r13d, %r13d
	xorl	%r14d, %r14d
	xorl	%r15d, %r15d
	jmp	*%rcx
END rsp_left
BLOB callee_saved, STATE, 0, STACK
	xorl	%ebx, %ebx
	xorl	%ebp, %ebp
	xorl	%r12d, %r12d
	xorl	%r15d, %r15d
	ret
END callee_saved
BLOB rsp_moved, STATE, 0, STACK
	popq	%rax
	pushq	%rax
	pushq	%rax
	pushq	%rax
	ret
END rsp_moved

/* --- where it goes */
BLOB jump_null, FAULT, 14
	xorl	%eax, %eax
	jmp	*%rax
END jump_null
BLOB jump_data, FAULT, 14
	CONTEXT	jump_data
	jmp	*%rax
END jump_data
BLOB jump_context, FAULT, 14
	movq	start_jump_context(%rip), %rax
	jmp	*%rax
END jump_context
BLOB run_off, FAULT, 3
	nop
	nop
	.set	at_run_off, . + 1
END run_off
BLOB run_far, FAULT, 3
	leaq	start_run_far(%rip), %rax
	addq	$0x100800, %rax
	jmp	*%rax
	.set	at_run_far, start_run_far + 0x100801
END run_far
BLOB iret_garbage, FAULT, 13
	pushq	$0
	pushq	$0
	pushq	$2
	pushq	$0x7778
	pushq	$0
at_iret_garbage:
	iretq
END iret_garbage
BLOB far_return, FAULT, 13
	pushq	$0x7778
	pushq	$0
at_far_return:
	lretq
END far_return
BLOB sysret_null, FAULT, 14
	xorl	%ecx, %ecx
	movl	$2, %r11d
	sysretq
END sysret_null

/* --- interrupts */
BLOB int_80, FAULT, 0x80
	int	$0x80
at_int_80:
	ret
END int_80
BLOB int_20, FAULT, 0x20
	int	$0x20
at_int_20:
	ret
END int_20
BLOB int_fe, FAULT, 0xfe
	int	$0xfe
at_int_fe:
	ret
END int_fe
/* by INT n these push no error code */
BLOB int_13, FAULT, 13
	int	$13
at_int_13:
	ret
END int_13
BLOB int_14, FAULT, 14
	int	$14
at_int_14:
	ret
END int_14
BLOB int_17, FAULT, 17
	int	$17
at_int_17:
	ret
END int_17
BLOB int_fe_rsp_zero, FAULT, 14
	xorl	%esp, %esp
at_int_fe_rsp_zero:
	int	$0xfe
END int_fe_rsp_zero
BLOB sti, STATE, 0, IF
	sti
	nop
	ret
END sti
BLOB sti_hlt, STATE, 0, IF
	sti
	hlt
	ret
END sti_hlt
BLOB cli_hlt, TIME_OUT, 2
	cli
at_cli_hlt:
	hlt
	jmp	at_cli_hlt
END cli_hlt
BLOB single_step, FAULT, 1, DEBUG
	pushfq
	orq	$0x100, (%rsp)
	popfq
	nop
at_single_step:
	ret
END single_step

/* --- what does not end: it is interrupted between at_NAME and the end */
BLOB loop, TIME_OUT, 2
at_loop:
	jmp	at_loop
END loop
BLOB loop_pause, TIME_OUT, 2
	nop
at_loop_pause:
	pause
	jmp	at_loop_pause
END loop_pause
BLOB loop_memory, TIME_OUT, 2
	CONTEXT	loop_memory
at_loop_memory:
	lock incq (%rax)
	jmp	at_loop_memory
END loop_memory
BLOB loop_far, TIME_OUT, 2
	jmp	at_loop_far
	.fill	3000, 1, 0x90
at_loop_far:
	nop
	.fill	200, 1, 0x90
	jmp	at_loop_far
END loop_far
BLOB loop_no_stack, TIME_OUT, 2
	xorl	%esp, %esp
at_loop_no_stack:
	jmp	at_loop_no_stack
END loop_no_stack
BLOB loop_push, TIME_OUT, 2
	CONTEXT	loop_push, 0x60
at_loop_push:
	movq	%rax, %rsp
	pushq	%rdx
	popq	%rcx
	jmp	at_loop_push
END loop_push

/* the literal is replaced by the address of a loop in the kernel's text */
BLOB kernel_loop, TIME_OUT, 2
	movabsq	$0x656c736577686572, %rax
	call	*%rax
END kernel_loop

/* --- registers of the system */
BLOB direction, OK, 0, FLAGS
	std
	ret
END direction
BLOB alignment_flag, OK, 0, FLAGS
	pushfq
	orq	$0x40000, (%rsp)
	popfq
	ret
END alignment_flag
BLOB nested_task, OK, 0, FLAGS
	pushfq
	orq	$0x7000, (%rsp)
	popfq
	ret
END nested_task
BLOB wrmsr_missing, FAULT, 13
ALSO wrmsr_missing, OK
	movl	$0x12345678, %ecx
at_wrmsr_missing:
	wrmsr
	ret
END wrmsr_missing
BLOB rdmsr_missing, FAULT, 13
ALSO rdmsr_missing, OK
	movl	$0x12345678, %ecx
at_rdmsr_missing:
	rdmsr
	ret
END rdmsr_missing
BLOB wrmsr_bad_value, FAULT, 13
/* an AMD register; Bochs ignores writes of what it does not know */
ALSO wrmsr_bad_value, OK
	movl	$0xc0010117, %ecx
	movl	$0xfff, %eax
	xorl	%edx, %edx
at_wrmsr_bad_value:
	wrmsr
	ret
END wrmsr_bad_value
BLOB gs_base_zero, FAULT, 6
	SETMSR	0xc0000101
at_gs_base_zero:
	ud2
END gs_base_zero
BLOB gs_base_ret, OK
	SETMSR	0xc0000101
	ret
END gs_base_ret
BLOB kernel_gs_base, OK, 0, MSRS
	SETMSR	0xc0000102, 0x1234, 0x5678
	ret
END kernel_gs_base
BLOB swapgs, OK, 0, MSRS
	swapgs
	ret
END swapgs
BLOB swapgs_load, FAULT, 14, MSRS
	swapgs
	xorl	%eax, %eax
at_swapgs_load:
	movq	%gs:(%rax), %rax
	ret
END swapgs_load
BLOB fs_base, OK, 0, MSRS
	SETMSR	0xc0000100, 0x12, 0x34567890
	ret
END fs_base
BLOB syscall_entry, OK, 0, MSRS
	SETMSR	0xc0000082, 0, 0x1000
	ret
END syscall_entry
BLOB syscall_mask, OK, 0, MSRS
	SETMSR	0xc0000084
	ret
END syscall_mask
BLOB page_attributes, OK, 0, MSRS
	SETMSR	0x277, 0x00070106, 0x00070106
	ret
END page_attributes
BLOB gs_selector, FAULT, 6, SEGMENTS
	movl	$0x18, %eax
	movw	%ax, %gs
at_gs_selector:
	ud2
END gs_selector
BLOB fs_selector, OK, 0, SEGMENTS + MSRS
	movl	$0x18, %eax
	movw	%ax, %fs
	ret
END fs_selector
BLOB ds_selector, OK, 0, SEGMENTS
	movl	$0x18, %eax
	movw	%ax, %ds
	movw	%ax, %es
	ret
END ds_selector
BLOB bad_selector, FAULT, 13
	movl	$0x7778, %eax
at_bad_selector:
	movw	%ax, %fs
	ret
END bad_selector
BLOB bad_ldt, FAULT, 13
	movl	$0x7778, %eax
at_bad_ldt:
	lldt	%ax
	ret
END bad_ldt
BLOB bad_task, FAULT, 13
	movl	$0x7778, %eax
at_bad_task:
	ltr	%ax
	ret
END bad_task
BLOB gdt, OK, 0, TABLES
	CONTEXT	gdt
	sgdt	(%rax)
	movw	$0x5f, (%rax)
	lgdt	(%rax)
	ret
END gdt
BLOB lidt, OK, 0, TABLES
	CONTEXT	lidt
	sidt	(%rax)
	movw	$0x7ff, (%rax)
	lidt	(%rax)
	ret
END lidt
BLOB cr0_wp, OK, 0, CONTROL
/* with CR4.CET it must stay set */
ALSO cr0_wp, FAULT, 13
	movq	%cr0, %rax
	btrq	$16, %rax
at_cr0_wp:
	movq	%rax, %cr0
	ret
END cr0_wp
BLOB cr0_ts, FAULT, 7, CONTROL
	movq	%cr0, %rax
	btsq	$3, %rax
	movq	%rax, %cr0
at_cr0_ts:
	xorps	%xmm0, %xmm0
	ret
END cr0_ts
/* a CPU without SMEP has nothing to clear */
BLOB cr4_smep, OK, 0, CONTROL
ALSO cr4_smep, OK
	movq	%cr4, %rax
	btrq	$20, %rax
	movq	%rax, %cr4
	ret
END cr4_smep
/* QEMU 7.2 executes this again and again, without #GP and without interrupts */
BLOB only_cr4_reserved, FAULT, 13
	movq	%cr4, %rax
	btsq	$31, %rax
at_only_cr4_reserved:
	movq	%rax, %cr4
	ret
END only_cr4_reserved
/* without PCID there is nothing to clear */
BLOB cr4_pcide, OK, 0, CONTROL
ALSO cr4_pcide, OK
	movq	%cr4, %rax
	btrq	$17, %rax
	movq	%rax, %cr4
	ret
END cr4_pcide
BLOB cr4_fsgsbase, OK, 0, CONTROL
ALSO cr4_fsgsbase, OK
	movq	%cr4, %rax
	btrq	$16, %rax
	movq	%rax, %cr4
	ret
END cr4_fsgsbase
/* the kernel's NMI handler begins with RDGSBASE */
BLOB cr4_fsgsbase_loop, TIME_OUT, 2
	movq	%cr4, %rax
	btrq	$16, %rax
	movq	%rax, %cr4
at_cr4_fsgsbase_loop:
	jmp	at_cr4_fsgsbase_loop
END cr4_fsgsbase_loop
BLOB spec_ctrl, OK, 0, MSRS
ALSO spec_ctrl, OK
ALSO spec_ctrl, FAULT, 13
	movl	$0x48, %ecx
	movl	$1, %eax
	xorl	%edx, %edx
at_spec_ctrl:
	wrmsr
	ret
END spec_ctrl
/* bit 18: the tiles of AMX */
BLOB xfd, OK, 0, MSRS
ALSO xfd, OK
ALSO xfd, FAULT, 13
	movl	$0x1c4, %ecx
	movl	$0x40000, %eax
	xorl	%edx, %edx
at_xfd:
	wrmsr
	ret
END xfd
/* 8 rows of 64 bytes in TMM0, and left in use */
BLOB amx, OK
ALSO amx, FAULT, 6
	CONTEXT	amx
	movb	$1, (%rax)
	movw	$64, 16(%rax)
	movb	$8, 48(%rax)
at_amx:
	.byte	0xc4, 0xe2, 0x78, 0x49, 0x00	/* LDTILECFG [RAX] */
	.byte	0xc4, 0xe2, 0x7b, 0x49, 0xc0	/* TILEZERO TMM0 */
	ret
END amx
/* QEMU cannot switch the local APIC on again */
BLOB only_apic_off, OK, 0, MSRS
	movl	$0x1b, %ecx
	rdmsr
	btrl	$10, %eax
	btrl	$11, %eax
	wrmsr
	ret
END only_apic_off
BLOB cr8, OK, 0, CONTROL
	movl	$15, %eax
	movq	%rax, %cr8
	ret
END cr8
BLOB breakpoint, FAULT, 1, DEBUG
	leaq	at_breakpoint(%rip), %rax
	movq	%rax, %db0
	movl	$0x402, %eax
	movq	%rax, %db7
	nop
at_breakpoint:
	nop
	ret
END breakpoint
BLOB debug_address, OK, 0, DEBUG
	movl	$0x1000, %eax
	movq	%rax, %db2
	ret
END debug_address
BLOB xcr0, OK, 0, CONTROL
/* without XSAVE, or without anything but x87 and SSE */
ALSO xcr0, FAULT, 6
ALSO xcr0, OK
	xorl	%ecx, %ecx
	xorl	%edx, %edx
	movl	$3, %eax
at_xcr0:
	xsetbv
	ret
END xcr0
BLOB xcr0_bad, FAULT, 13
ALSO xcr0_bad, FAULT, 6
	xorl	%ecx, %ecx
	xorl	%edx, %edx
	movl	$4, %eax
at_xcr0_bad:
	xsetbv
	ret
END xcr0_bad

	.section .rodata.blobs, "a"
	.quad	0
	.section .rodata.also, "a"
	.quad	0

	.section .note.GNU-stack, "", @progbits
