#ifndef SERVER_SHARD_SLICE_VALUES_H_
#define SERVER_SHARD_SLICE_VALUES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "common/exchange/payload.h"
#include "common/tensor/host_buffer.h"

namespace capstan {

// The parameters of a slice, which replies send from where they lie while later updates go on: an
// update writes in place when no reply holds the values any more, else into another buffer. Not
// thread-safe, but what was shared may be read and let go on any thread.
class SliceValues {
 public:
  explicit SliceValues(HostBuffer initial);

  size_t size() const { return current_->floats.size(); }
  size_t size_bytes() const { return current_->floats.size_bytes(); }
  absl::Span<const float> span() const {
    return static_cast<const HostBuffer&>(current_->floats).span();
  }

  // The values as they are now; no update changes them as long as a copy of the payload lives.
  Payload Share() const;

  // The values, to be changed. Valid until the next call.
  absl::Span<float> Mutable();

 private:
  struct Buffer {
    HostBuffer floats;
    std::atomic<int64_t> readers = 0;  // payloads that hold it
  };

  // A buffer that nobody reads.
  std::shared_ptr<Buffer> TakeFree();

  std::shared_ptr<Buffer> current_;
  std::vector<std::shared_ptr<Buffer>> others_;  // that are read still, or free
};

}  // namespace capstan

#endif  // SERVER_SHARD_SLICE_VALUES_H_
