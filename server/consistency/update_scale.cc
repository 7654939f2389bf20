#include "server/consistency/update_scale.h"

#include <algorithm>

namespace capstan {

uint64_t LearningRateDivisor(UpdateScale scale, uint64_t live_workers, uint64_t versions_behind) {
  live_workers = std::max<uint64_t>(live_workers, 1);
  switch (scale) {
    case UpdateScale::kStaleness:
      return live_workers + versions_behind;
    case UpdateScale::kMean:
      return live_workers;
    case UpdateScale::kSum:
      return 1;
  }
  return 1;
}

}  // namespace capstan
