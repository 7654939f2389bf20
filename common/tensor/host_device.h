#ifndef COMMON_TENSOR_HOST_DEVICE_H_
#define COMMON_TENSOR_HOST_DEVICE_H_

// Marks an inline function for GPUs as well as for the host. Empty for compilers without CUDA.
#ifdef __CUDACC__
#define CAPSTAN_HOST_DEVICE __host__ __device__
#else
#define CAPSTAN_HOST_DEVICE
#endif

#endif  // COMMON_TENSOR_HOST_DEVICE_H_
