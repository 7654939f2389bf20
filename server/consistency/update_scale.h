#ifndef SERVER_CONSISTENCY_UPDATE_SCALE_H_
#define SERVER_CONSISTENCY_UPDATE_SCALE_H_

#include <cstdint>

namespace capstan {

// How far a push moves the parameters that is applied by itself, as under SSP and async.
enum class UpdateScale {
  kStaleness,  // the less, the more updates its gradient has missed
  kMean,       // by its part in the mean of all live workers
  kSum,        // in full
};

// What the learning rate of such a push is divided by. The gradient stays as it is, because an
// optimizer such as Adam takes no notice of its size. `versions_behind` is the number of updates
// that were applied to the slice after the values were pulled that the gradient was computed with.
//
// kStaleness: live_workers x (1 + staleness), where staleness = versions_behind / live_workers, in
// steps; hence live_workers + versions_behind. Zhang et al., "Staleness-aware Async-SGD for
// Distributed Deep Learning", IJCAI 2016, equation 6, which leaves a fresh gradient as it is.
uint64_t LearningRateDivisor(UpdateScale scale, uint64_t live_workers, uint64_t versions_behind);

}  // namespace capstan

#endif  // SERVER_CONSISTENCY_UPDATE_SCALE_H_
