# The loop of jacobi in kernels.c that gcc 12.2 -O3 -march=haswell makes.
# OSACA-BEGIN
.L113:
	vmovupd	(%r8,%rax), %ymm2
	vaddpd	-8(%rdx,%rax), %ymm2, %ymm0
	vaddpd	8(%rdx,%rax), %ymm0, %ymm0
	vaddpd	(%rcx,%rax), %ymm0, %ymm0
	vmulpd	%ymm1, %ymm0, %ymm0
	vmovupd	%ymm0, (%rsi,%rax)
	addq	$32, %rax
	cmpq	%rdi, %rax
	jne	.L113
# OSACA-END
