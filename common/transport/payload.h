#ifndef COMMON_TRANSPORT_PAYLOAD_H_
#define COMMON_TRANSPORT_PAYLOAD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"

namespace capstan {

// Bytes that travel without being copied: fragments of memory, kept alive by a shared owner. The
// bytes must not change while anyone may read them. Cheap to copy and to move.
class Payload {
 public:
  using Fragment = absl::Span<const uint8_t>;
  using Fragments = absl::InlinedVector<Fragment, 2>;

  Payload() = default;
  explicit Payload(std::shared_ptr<const void> owner) : owner_(std::move(owner)) {}
  // Floats of memory that `owner` keeps alive.
  Payload(absl::Span<const float> values, std::shared_ptr<const void> owner)
      : owner_(std::move(owner)) {
    Append({reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(float)});
  }

  // `fragment` is kept alive by the owner.
  void Append(Fragment fragment) {
    if (fragment.empty()) return;
    fragments_.push_back(fragment);
    size_bytes_ += fragment.size();
  }

  size_t size_bytes() const { return size_bytes_; }
  bool empty() const { return size_bytes_ == 0; }
  const Fragments& fragments() const { return fragments_; }
  const std::shared_ptr<const void>& owner() const { return owner_; }

  // The bytes [offset, offset + size), which must lie inside, with the same owner.
  Payload Subrange(size_t offset, size_t size) const;

  // Copies all bytes; `destination` is exactly as long.
  void CopyTo(absl::Span<float> destination) const;

 private:
  std::shared_ptr<const void> owner_;
  Fragments fragments_;
  size_t size_bytes_ = 0;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_PAYLOAD_H_
