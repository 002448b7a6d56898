# The loop of triad in kernels.c that gcc 12.2 -O3 -march=haswell makes.
# OSACA-BEGIN
.L72:
	vmovupd	(%rcx,%rax), %ymm1
	vfmadd213pd	(%rdx,%rax), %ymm2, %ymm1
	vmovupd	%ymm1, (%rsi,%rax)
	addq	$32, %rax
	cmpq	%r8, %rax
	jne	.L72
# OSACA-END
