#ifndef KERNELS_CPU_CPU_STREAM_H_
#define KERNELS_CPU_CPU_STREAM_H_

namespace capstan {

// The calling thread as a stream. An operation has ended when its call returns.
class CpuStream {};

}  // namespace capstan

#endif  // KERNELS_CPU_CPU_STREAM_H_
