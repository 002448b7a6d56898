# The loop of update in kernels.c that gcc 12.2 -O3 -march=haswell makes.
# OSACA-BEGIN
.L26:
	vmulpd	(%rax), %ymm2, %ymm1
	addq	$32, %rax
	vmovupd	%ymm1, -32(%rax)
	cmpq	%rdx, %rax
	jne	.L26
# OSACA-END
