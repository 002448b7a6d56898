# The loop of sum_reduction in kernels.c that gcc 12.2 -O3 -march=haswell makes.
# OSACA-BEGIN
.L44:
	vaddsd	(%rax), %xmm0, %xmm0
	addq	$32, %rax
	vaddsd	-24(%rax), %xmm0, %xmm0
	vaddsd	-16(%rax), %xmm0, %xmm0
	vaddsd	-8(%rax), %xmm0, %xmm0
	cmpq	%rax, %rdx
	jne	.L44
# OSACA-END
