#ifndef KERNELS_CPU_BLAS_THREADS_H_
#define KERNELS_CPU_BLAS_THREADS_H_

namespace capstan {

// Keeps every later Gemm of this process on its caller's thread, so that its result does not depend
// on the number of cores. Each main that computes calls it first, before it starts a thread.
void UseOneBlasThread();

}  // namespace capstan

#endif  // KERNELS_CPU_BLAS_THREADS_H_
