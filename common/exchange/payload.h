#ifndef COMMON_EXCHANGE_PAYLOAD_H_
#define COMMON_EXCHANGE_PAYLOAD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/tensor/host_buffer.h"

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

  // Memory, aligned for floats, that nobody else touches, such as what a message was received in.
  static Payload Exclusive(std::shared_ptr<uint8_t> memory, size_t bytes) {
    Payload payload;
    payload.Append({memory.get(), bytes});
    payload.owner_ = std::move(memory);
    payload.is_exclusive_ = true;
    return payload;
  }

  // `fragment` is kept alive by the owner.
  void Append(Fragment fragment) {
    if (fragment.empty()) return;
    fragments_.push_back(fragment);
    size_bytes_ += fragment.size();
  }

  // The bytes as floats that may be kept and changed, if they are exclusive and this is their only
  // payload, which is empty then. Else null, and nothing has changed.
  std::optional<HostBuffer> TakeFloats();

  // Lets go of the bytes.
  void Clear() {
    fragments_.clear();
    size_bytes_ = 0;
    owner_ = nullptr;
  }

  size_t size_bytes() const { return size_bytes_; }
  bool empty() const { return size_bytes_ == 0; }
  const Fragments& fragments() const { return fragments_; }
  const std::shared_ptr<const void>& owner() const { return owner_; }

  // The bytes [offset, offset + size), which must lie inside, with the same owner.
  Payload Subrange(size_t offset, size_t size) const;

  // Calls `use` with all bytes as floats, in order, until it answers false; then so does this. What
  // lies in one piece, aligned for floats, is one block; else they are copied, block by block, so
  // that each is used while it is in the cache. A block is valid during its call. The bytes are
  // whole floats.
  bool ForEachBlock(
      absl::FunctionRef<bool(size_t offset, absl::Span<const float> block)> use) const;

  // Copies all bytes, unless they lie there already; `destination` is exactly as long.
  void CopyTo(absl::Span<float> destination) const;

 private:
  std::shared_ptr<const void> owner_;
  Fragments fragments_;
  size_t size_bytes_ = 0;
  bool is_exclusive_ = false;  // the memory is the owner's alone
};

}  // namespace capstan

#endif  // COMMON_EXCHANGE_PAYLOAD_H_
