# The loop of daxpy in kernels.c that gcc 12.2 -O3 -march=haswell makes.
# OSACA-BEGIN
.L54:
	vmovupd	(%rdx,%rax), %ymm1
	vfmadd213pd	(%rcx,%rax), %ymm2, %ymm1
	vmovupd	%ymm1, (%rcx,%rax)
	addq	$32, %rax
	cmpq	%rax, %rsi
	jne	.L54
# OSACA-END
