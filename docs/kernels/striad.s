# The loop of striad in kernels.c that gcc 12.2 -O3 -march=haswell makes.
# OSACA-BEGIN
.L90:
	vmovupd	(%rcx,%rax), %ymm0
	vmovupd	(%rdx,%rax), %ymm1
	vfmadd132pd	(%r8,%rax), %ymm1, %ymm0
	vmovupd	%ymm0, (%rsi,%rax)
	addq	$32, %rax
	cmpq	%r9, %rax
	jne	.L90
# OSACA-END
