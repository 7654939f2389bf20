#ifndef COMMON_JOB_SLICE_BYTES_H_
#define COMMON_JOB_SLICE_BYTES_H_

#include <cstdint>

#include "common/tensor/slicing.h"
#include "proto/job.pb.h"

namespace capstan {

// The size of a job's slices, which every process of it must cut tensors into. What is tuned is how
// many of them go together, so that they are small then, unless the job says how large.
inline uint64_t SliceBytes(const v1::SchedulerSpec& scheduler) {
  constexpr uint64_t kTunedSliceBytes = 256 << 10;
  if (scheduler.policy() == v1::SchedulerSpec::TENSOR_FIFO) return kMaxSliceBytes;
  const bool is_own = scheduler.has_slice_bytes() || !scheduler.tune();
  return is_own ? scheduler.slice_bytes() : kTunedSliceBytes;
}

}  // namespace capstan

#endif  // COMMON_JOB_SLICE_BYTES_H_
