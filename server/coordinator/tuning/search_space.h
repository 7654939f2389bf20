#ifndef SERVER_COORDINATOR_TUNING_SEARCH_SPACE_H_
#define SERVER_COORDINATOR_TUNING_SEARCH_SPACE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/coordinator/tuning/gaussian_process.h"
#include "server/coordinator/tuning/schedule_point.h"

namespace capstan {

// What a job's tuning chooses from.
struct SearchSpace {
  SchedulePoint own;  // that the job says itself; its partition is one slice or more
  uint64_t slice_bytes = 0;
  uint64_t largest_tensor_bytes = 0;
  uint64_t model_bytes = 0;  // of all tensors
};

// `own`, and then doublings of a slice in both directions, until a partition holds the largest
// tensor and the credit all of them, at most 64 MiB. A credit below the partition lets one
// partition go at a time, as one of its size does, and is left out.
std::vector<SchedulePoint> Candidates(const SearchSpace& space);

// In octaves above a slice.
TuningPoint Octaves(const SearchSpace& space, const SchedulePoint& point);

// At most `count` of the candidates, by their index, spread over both directions: a Latin hypercube
// drawn from the seed.
std::vector<size_t> SpreadOut(const SearchSpace& space,
                              const std::vector<SchedulePoint>& candidates, int count,
                              uint64_t seed);

}  // namespace capstan

#endif  // SERVER_COORDINATOR_TUNING_SEARCH_SPACE_H_
