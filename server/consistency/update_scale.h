#ifndef SERVER_CONSISTENCY_UPDATE_SCALE_H_
#define SERVER_CONSISTENCY_UPDATE_SCALE_H_

#include <cstdint>

namespace capstan {

// How far a push moves the parameters under SSP and async, where each push is applied alone.
enum class UpdateScale {
  kStaleness,  // less for a gradient that has missed more updates
  kMean,       // by its part of the mean of all live workers
  kSum,        // in full
};

// The divisor of the push's learning rate. The gradient is not scaled, because an optimizer such as
// Adam ignores its size. `versions_behind` is the number of updates of the slice since the pull of
// the values used for the gradient.
//
// kStaleness: live_workers x (1 + staleness) with staleness = versions_behind / live_workers, in
// steps; so the divisor is live_workers + versions_behind. Zhang et al., "Staleness-aware Async-SGD
// for Distributed Deep Learning", IJCAI 2016, equation 6; it does not scale a fresh gradient.
uint64_t LearningRateDivisor(UpdateScale scale, uint64_t live_workers, uint64_t versions_behind);

}  // namespace capstan

#endif  // SERVER_CONSISTENCY_UPDATE_SCALE_H_
