#ifndef COMMON_JOB_SLICE_BYTES_H_
#define COMMON_JOB_SLICE_BYTES_H_

#include <cstdint>

#include "common/tensor/slicing.h"
#include "proto/job.pb.h"

namespace capstan {

// The size of a job's slices, which every process of it must cut tensors into.
inline uint64_t SliceBytes(const v1::SchedulerSpec& scheduler) {
  return scheduler.policy() == v1::SchedulerSpec::TENSOR_FIFO ? kMaxSliceBytes
                                                              : scheduler.slice_bytes();
}

}  // namespace capstan

#endif  // COMMON_JOB_SLICE_BYTES_H_
