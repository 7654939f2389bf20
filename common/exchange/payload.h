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

// Bytes to transfer without a copy: fragments of memory, kept alive by a shared owner. Nobody may
// change the bytes while somebody may read them. Cheap to copy and to move.
class Payload {
 public:
  using Fragment = absl::Span<const uint8_t>;
  using Fragments = absl::InlinedVector<Fragment, 2>;

  Payload() = default;
  explicit Payload(std::shared_ptr<const void> owner) : owner_(std::move(owner)) {}
  // The bytes of `values`, which `owner` keeps alive.
  Payload(absl::Span<const float> values, std::shared_ptr<const void> owner)
      : owner_(std::move(owner)) {
    Append({reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(float)});
  }

  // Takes over memory to which nobody else has access, such as the buffer of a received message.
  // It must be aligned for floats.
  static Payload Exclusive(std::shared_ptr<uint8_t> memory, size_t bytes) {
    Payload payload;
    payload.Append({memory.get(), bytes});
    payload.owner_ = std::move(memory);
    payload.is_exclusive_ = true;
    return payload;
  }

  // The owner must keep `fragment` alive.
  void Append(Fragment fragment) {
    if (fragment.empty()) return;
    fragments_.push_back(fragment);
    size_bytes_ += fragment.size();
  }

  // Appends the other's bytes. Both owners are kept alive. Adjacent fragments become one.
  void Append(const Payload& other);

  // Moves the bytes out as floats, free to be kept and changed. Works only if the memory is
  // exclusive and no other payload shares it. Otherwise returns null and changes nothing.
  std::optional<HostBuffer> TakeFloats();

  // Drops the bytes and the owner.
  void Clear() {
    fragments_.clear();
    size_bytes_ = 0;
    owner_ = nullptr;
  }

  size_t size_bytes() const { return size_bytes_; }
  bool empty() const { return size_bytes_ == 0; }
  const Fragments& fragments() const { return fragments_; }
  const std::shared_ptr<const void>& owner() const { return owner_; }

  // The bytes [offset, offset + size), with the same owner. They must lie inside this payload.
  Payload Subrange(size_t offset, size_t size) const;

  // The same bytes as at most one fragment: this payload, or a copy.
  Payload InOnePiece() const;
  // The bytes of a payload with at most one fragment.
  Fragment piece() const;

  // Calls `use` with all bytes as floats, block by block, in order. Stops and returns false when
  // `use` returns false. A single aligned fragment is one block. Otherwise blocks are copies, small
  // enough to stay in the cache. A block is valid during its call only. The size must be a multiple
  // of a float's.
  bool ForEachBlock(
      absl::FunctionRef<bool(size_t offset, absl::Span<const float> block)> use) const;

  // Copies all bytes, except fragments at their destination already. `destination` has exactly the
  // payload's size.
  void CopyTo(absl::Span<uint8_t> destination) const;
  void CopyTo(absl::Span<float> destination) const {
    CopyTo({reinterpret_cast<uint8_t*>(destination.data()), destination.size() * sizeof(float)});
  }

 private:
  std::shared_ptr<const void> owner_;
  Fragments fragments_;
  size_t size_bytes_ = 0;
  bool is_exclusive_ = false;  // made by Exclusive
};

}  // namespace capstan

#endif  // COMMON_EXCHANGE_PAYLOAD_H_
