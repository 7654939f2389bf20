#include "server/shard/initializer.h"

#include <algorithm>
#include <cmath>

#include "common/base/random.h"

namespace capstan {
namespace {

// Sets these draws apart from every other use of the job's seed.
constexpr uint32_t kDomain = 0x696e6974;

}  // namespace

void InitializeValues(uint64_t seed, TableId table, double stddev, uint64_t offset,
                      absl::Span<float> values) {
  if (stddev == 0) return std::fill(values.begin(), values.end(), 0.0f);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t element = offset + i;
    const auto words = Philox4x32({static_cast<uint32_t>(element),
                                   static_cast<uint32_t>(element >> 32), table.value(), kDomain},
                                  {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    // Box and Muller; 1 - u lies in (0, 1], where the logarithm is finite.
    const double radius = std::sqrt(-2.0 * std::log(1.0 - UnitFloat(words[0])));
    values[i] = static_cast<float>(stddev * radius * std::cos(2.0 * M_PI * UnitFloat(words[1])));
  }
}

}  // namespace capstan
