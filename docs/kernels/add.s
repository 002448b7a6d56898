# The loop of add in kernels.c that gcc 12.2 -O3 -march=haswell makes.
# OSACA-BEGIN
.L8:
	vmovupd	(%rdx,%rax), %ymm1
	vaddpd	(%rcx,%rax), %ymm1, %ymm0
	vmovupd	%ymm0, (%rsi,%rax)
	addq	$32, %rax
	cmpq	%r8, %rax
	jne	.L8
# OSACA-END
