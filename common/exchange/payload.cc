#include "common/exchange/payload.h"

#include <glog/logging.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace capstan {
namespace {

// A block of this size stays in the core's first-level cache.
constexpr size_t kBlockBytes = 16 << 10;

}  // namespace

void Payload::Append(const Payload& other) {
  if (other.empty()) return;
  is_exclusive_ = false;
  if (empty()) {
    owner_ = other.owner_;
  } else if (owner_ != other.owner_) {
    owner_ = std::make_shared<std::pair<decltype(owner_), decltype(owner_)>>(owner_, other.owner_);
  }
  for (const Fragment fragment : other.fragments_) {
    if (!fragments_.empty() && fragments_.back().end() == fragment.begin()) {
      Fragment& last = fragments_.back();
      last = {last.data(), last.size() + fragment.size()};
      size_bytes_ += fragment.size();
    } else {
      Append(fragment);
    }
  }
}

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
  // Exclusive took the memory as non-const.
  auto* const floats = reinterpret_cast<float*>(const_cast<uint8_t*>(bytes.data()));
  HostBuffer buffer(floats, bytes.size() / sizeof(float), std::const_pointer_cast<void>(owner_));
  Clear();
  return buffer;
}

bool Payload::ForEachBlock(
    absl::FunctionRef<bool(size_t offset, absl::Span<const float> block)> use) const {
  if (empty()) return true;
  CHECK_EQ(size_bytes_ % sizeof(float), 0);
  const uint8_t* next = fragments_[0].data();
  const bool is_aligned = reinterpret_cast<uintptr_t>(next) % alignof(float) == 0;
  if (fragments_.size() == 1 && is_aligned) {
    return use(0, {reinterpret_cast<const float*>(next), size_bytes_ / sizeof(float)});
  }
  alignas(64) uint8_t block[kBlockBytes];
  size_t filled = 0, offset = 0;
  for (Fragment rest : fragments_) {
    while (!rest.empty()) {
      const size_t taken = std::min(rest.size(), kBlockBytes - filled);
      std::memcpy(block + filled, rest.data(), taken);
      rest.remove_prefix(taken);
      filled += taken;
      if (filled < kBlockBytes && offset * sizeof(float) + filled < size_bytes_) continue;
      const absl::Span<const float> floats(reinterpret_cast<const float*>(block),
                                           filled / sizeof(float));
      if (!use(offset, floats)) return false;
      offset += floats.size();
      filled = 0;
    }
  }
  return true;
}

Payload::Fragment Payload::piece() const {
  CHECK_LE(fragments_.size(), 1) << "call InOnePiece first";
  return empty() ? Fragment() : fragments_[0];
}

Payload Payload::InOnePiece() const {
  if (fragments_.size() <= 1) return *this;
  const std::shared_ptr<uint8_t[]> memory(new uint8_t[size_bytes_]);  // not set to 0 first
  CopyTo(absl::MakeSpan(memory.get(), size_bytes_));
  Payload copy(memory);
  copy.Append({memory.get(), size_bytes_});
  return copy;
}

void Payload::CopyTo(absl::Span<uint8_t> destination) const {
  CHECK_EQ(destination.size(), size_bytes_);
  uint8_t* target = destination.data();
  for (const Fragment fragment : fragments_) {
    if (target != fragment.data()) std::memcpy(target, fragment.data(), fragment.size());
    target += fragment.size();
  }
}

}  // namespace capstan
