#ifndef COMMON_TENSOR_HOST_DEVICE_H_
#define COMMON_TENSOR_HOST_DEVICE_H_

// In front of an inline function: it can also be called by code that runs on a GPU. Means nothing
// to a compiler that does not compile for one.
#ifdef __CUDACC__
#define CAPSTAN_HOST_DEVICE __host__ __device__
#else
#define CAPSTAN_HOST_DEVICE
#endif

#endif  // COMMON_TENSOR_HOST_DEVICE_H_
