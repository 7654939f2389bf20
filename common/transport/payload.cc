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

void Payload::CopyTo(absl::Span<float> destination) const {
  CHECK_EQ(destination.size() * sizeof(float), size_bytes_);
  auto* target = reinterpret_cast<uint8_t*>(destination.data());
  for (const Fragment fragment : fragments_) {
    std::memcpy(target, fragment.data(), fragment.size());
    target += fragment.size();
  }
}

}  // namespace capstan
