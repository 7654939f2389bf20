#include "common/transport/payload.h"

#include <glog/logging.h>

#include <algorithm>
#include <cstring>

namespace capstan {

Payload Payload::Subrange(size_t offset, size_t size) const {
  CHECK_LE(offset + size, size_bytes_);
  Payload part(owner_);
  for (const Fragment fragment : fragments_) {
    if (offset >= fragment.size()) {
      offset -= fragment.size();
      continue;
    }
    const size_t taken = std::min(size, fragment.size() - offset);
    part.Append(fragment.subspan(offset, taken));
    size -= taken;
    offset = 0;
    if (size == 0) break;
  }
  return part;
}

std::optional<HostBuffer> Payload::TakeFloats() {
  if (!is_exclusive_ || owner_.use_count() != 1 || fragments_.size() != 1) return std::nullopt;
  const Fragment bytes = fragments_[0];
  // Exclusive memory is not const: see Exclusive.
  auto* const floats = reinterpret_cast<float*>(const_cast<uint8_t*>(bytes.data()));
  HostBuffer buffer(floats, bytes.size() / sizeof(float), std::const_pointer_cast<void>(owner_));
  Clear();
  return buffer;
}

void Payload::CopyTo(absl::Span<float> destination) const {
  CHECK_EQ(destination.size() * sizeof(float), size_bytes_);
  auto* target = reinterpret_cast<uint8_t*>(destination.data());
  for (const Fragment fragment : fragments_) {
    if (target != fragment.data()) std::memcpy(target, fragment.data(), fragment.size());
    target += fragment.size();
  }
}

}  // namespace capstan
