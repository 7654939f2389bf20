#include "server/shard/slice_values.h"

#include <cstring>
#include <utility>

namespace capstan {

SliceValues::SliceValues(HostBuffer initial) : current_(std::make_shared<Buffer>()) {
  current_->floats = std::move(initial);
}

Payload SliceValues::Share() const {
  current_->readers.fetch_add(1, std::memory_order_relaxed);
  const std::shared_ptr<const void> reader(
      current_->floats.data(), [buffer = current_](const void*) {
        // What was read was read before.
        buffer->readers.fetch_sub(1, std::memory_order_release);
      });
  return Payload(span(), reader);
}

absl::Span<float> SliceValues::Mutable() {
  if (current_->readers.load(std::memory_order_acquire) > 0) {
    std::shared_ptr<Buffer> next = TakeFree();
    std::memcpy(next->floats.data(), current_->floats.data(), size_bytes());
    others_.push_back(std::exchange(current_, std::move(next)));
  }
  return current_->floats.span();
}

std::shared_ptr<SliceValues::Buffer> SliceValues::TakeFree() {
  std::shared_ptr<Buffer> free;
  std::vector<std::shared_ptr<Buffer>> read;
  for (std::shared_ptr<Buffer>& buffer : others_) {
    const bool is_free = buffer->readers.load(std::memory_order_acquire) == 0;
    // Of several free ones, one is enough.
    (is_free ? free : read.emplace_back()) = std::move(buffer);
  }
  others_ = std::move(read);
  if (free == nullptr) {
    free = std::make_shared<Buffer>();
    free->floats = HostBuffer(size());
  }
  return free;
}

}  // namespace capstan
