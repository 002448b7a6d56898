# The loop of gauss_seidel in kernels.c that gcc 12.2 -O3 -march=haswell makes.
# OSACA-BEGIN
.L107:
	vaddsd	(%rcx,%rax,8), %xmm1, %xmm1
	vaddsd	8(%rsi,%rax,8), %xmm1, %xmm1
	vaddsd	(%rdx,%rax,8), %xmm1, %xmm1
	vmulsd	%xmm0, %xmm1, %xmm1
	vmovsd	%xmm1, (%rsi,%rax,8)
	incq	%rax
	cmpq	%r8, %rax
	jne	.L107
# OSACA-END
