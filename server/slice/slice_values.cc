#include "server/slice/slice_values.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/random.h"

namespace capstan {
namespace {

// Separates these draws from all other uses of the job's seed.
constexpr uint32_t kDomain = 0x696e6974;

}  // namespace

SliceValues::SliceValues(HostBuffer initial) : current_(std::make_shared<Buffer>()) {
  current_->floats = std::move(initial);
}

Payload SliceValues::Share() const {
  current_->readers.fetch_add(1, std::memory_order_relaxed);
  const std::shared_ptr<const void> reader(
      current_->floats.data(), [buffer = current_](const void*) {
        // Reads through this payload happen before a later write.
        buffer->readers.fetch_sub(1, std::memory_order_release);
      });
  return Payload(span(), reader);
}

SliceValues::Change SliceValues::BeginChange() {
  const absl::Span<const float> from = span();
  if (current_->readers.load(std::memory_order_acquire) > 0) {
    std::shared_ptr<Buffer> next = TakeFree();
    // Nothing frees the buffer before the next change.
    others_.push_back(std::exchange(current_, std::move(next)));
  }
  return {from, current_->floats.span()};
}

std::shared_ptr<SliceValues::Buffer> SliceValues::TakeFree() {
  std::shared_ptr<Buffer> free;
  std::vector<std::shared_ptr<Buffer>> read;
  for (std::shared_ptr<Buffer>& buffer : others_) {
    const bool is_free = buffer->readers.load(std::memory_order_acquire) == 0;
    // One free buffer is kept; the others are dropped.
    (is_free ? free : read.emplace_back()) = std::move(buffer);
  }
  others_ = std::move(read);
  if (free == nullptr) {
    free = std::make_shared<Buffer>();
    free->floats = HostBuffer(size());
  }
  return free;
}

void InitializeValues(uint64_t seed, TableId table, double stddev, uint64_t offset,
                      absl::Span<float> values) {
  if (stddev == 0) return std::fill(values.begin(), values.end(), 0.0f);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t element = offset + i;
    const auto words = Philox4x32({static_cast<uint32_t>(element),
                                   static_cast<uint32_t>(element >> 32), table.value(), kDomain},
                                  {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    // Box and Muller. 1 - u lies in (0, 1], so the logarithm is finite.
    const double radius = std::sqrt(-2.0 * std::log(1.0 - UnitFloat(words[0])));
    values[i] = static_cast<float>(stddev * radius * std::cos(2.0 * M_PI * UnitFloat(words[1])));
  }
}

}  // namespace capstan
