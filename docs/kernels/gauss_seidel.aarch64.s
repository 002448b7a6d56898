// The inner loop of gauss_seidel in kernels.c for AArch64, written by hand.
// OSACA-BEGIN
.L3:
    ldr     d1, [x1], #8
    fadd    d0, d0, d1
    ldr     d2, [x2, #8]
    fadd    d0, d0, d2
    ldr     d3, [x3], #8
    fadd    d0, d0, d3
    fmul    d0, d0, d8
    str     d0, [x2], #8
    cmp     x2, x4
    b.ne    .L3
// OSACA-END
