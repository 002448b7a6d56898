// The kernels of OSACA's examples (their names and formulas), written anew: streams, reductions, stencils.
typedef double *restrict out; typedef const double *restrict in;
void copy(long n, out a, in b) { for (long i = 0; i < n; i++) a[i] = b[i]; }
void add(long n, out a, in b, in c) { for (long i = 0; i < n; i++) a[i] = b[i] + c[i]; }
void update(long n, out a, double s) { for (long i = 0; i < n; i++) a[i] = s * a[i]; }
double sum_reduction(long n, in a) { double s = 0; for (long i = 0; i < n; i++) s += a[i]; return s; }
void daxpy(long n, out a, in b, double s) { for (long i = 0; i < n; i++) a[i] += s * b[i]; }
void triad(long n, out a, in b, in c, double s) { for (long i = 0; i < n; i++) a[i] = b[i] + s * c[i]; }
void striad(long n, out a, in b, in c, in d) { for (long i = 0; i < n; i++) a[i] = b[i] + c[i] * d[i]; }
void gauss_seidel(long n, double *k, const double *up, const double *down, double s) {
    for (long i = 1; i < n - 1; i++) k[i] = s * (k[i - 1] + down[i] + k[i + 1] + up[i]);
}
void jacobi(long n, out a, in k, in up, in down) {
    for (long i = 1; i < n - 1; i++) a[i] = 0.25 * (k[i - 1] + down[i] + k[i + 1] + up[i]);
}
