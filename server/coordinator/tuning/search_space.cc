#include "server/coordinator/tuning/search_space.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "common/base/random.h"

namespace capstan {
namespace {

constexpr uint64_t kMostBytes = 64 << 20;

// Doublings of `first`, up to the first one that is no less than `enough`.
std::vector<uint64_t> Doublings(uint64_t first, uint64_t enough) {
  std::vector<uint64_t> sizes = {first};
  while (sizes.back() < enough && sizes.back() <= kMostBytes / 2) sizes.push_back(2 * sizes.back());
  return sizes;
}

std::vector<int> Shuffled(int count, Random& random) {
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  for (int i = count - 1; i > 0; --i) std::swap(order[i], order[random.UniformInt(i + 1)]);
  return order;
}

}  // namespace

std::vector<SchedulePoint> Candidates(const SearchSpace& space) {
  std::vector<SchedulePoint> candidates = {space.own};
  for (const uint64_t partition : Doublings(space.slice_bytes, space.largest_tensor_bytes)) {
    for (const uint64_t credit : Doublings(space.slice_bytes, space.model_bytes)) {
      const SchedulePoint point = {partition, credit};
      if (credit >= partition && !(point == space.own)) candidates.push_back(point);
    }
  }
  return candidates;
}

TuningPoint Octaves(const SearchSpace& space, const SchedulePoint& point) {
  const auto slice = static_cast<double>(space.slice_bytes);
  return {std::log2(static_cast<double>(point.partition_bytes) / slice),
          std::log2(static_cast<double>(point.credit_bytes) / slice)};
}

std::vector<size_t> SpreadOut(const SearchSpace& space,
                              const std::vector<SchedulePoint>& candidates, int count,
                              uint64_t seed) {
  TuningPoint most = {0, 0};
  for (const SchedulePoint& point : candidates) {
    const TuningPoint at = Octaves(space, point);
    most = {std::max(most[0], at[0]), std::max(most[1], at[1])};
  }
  Random random(seed, /*stream=*/0x74756e65);
  const std::vector<int> rows = Shuffled(count, random);
  std::vector<size_t> chosen;
  for (int i = 0; i < count; ++i) {
    const TuningPoint wanted = {most[0] * (rows[i] + random.UniformFloat()) / count,
                                most[1] * (i + random.UniformFloat()) / count};
    size_t nearest = 0;
    double least = INFINITY;
    for (size_t index = 0; index < candidates.size(); ++index) {
      const TuningPoint at = Octaves(space, candidates[index]);
      const double distance = std::hypot(at[0] - wanted[0], at[1] - wanted[1]);
      if (distance >= least) continue;
      least = distance;
      nearest = index;
    }
    if (std::find(chosen.begin(), chosen.end(), nearest) == chosen.end()) chosen.push_back(nearest);
  }
  return chosen;
}

}  // namespace capstan
