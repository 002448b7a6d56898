# The loop of copy in kernels.c that gcc 12.2 -O3 -march=haswell -fno-tree-loop-distribute-patterns makes.
# OSACA-BEGIN
.L4:
	vmovupd	(%rdx,%rax), %ymm1
	vmovupd	%ymm1, (%rsi,%rax)
	addq	$32, %rax
	cmpq	%rax, %rdi
	jne	.L4
# OSACA-END
