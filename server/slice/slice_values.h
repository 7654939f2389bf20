#ifndef SERVER_SLICE_SLICE_VALUES_H_
#define SERVER_SLICE_SLICE_VALUES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/exchange/payload.h"
#include "common/tensor/host_buffer.h"

namespace capstan {

// The parameters of a slice, or an array of its optimizer's state. Replies and snapshots read them
// in place while later updates go on: an update writes into another buffer as long as somebody
// reads this one. So there is one buffer more than versions that are read. One that is free stays
// for the next time. Not thread-safe, but any thread may read and release shared values.
class SliceValues {
 public:
  explicit SliceValues(HostBuffer initial);

  size_t size() const { return current_->floats.size(); }
  size_t size_bytes() const { return current_->floats.size_bytes(); }
  absl::Span<const float> span() const {
    return static_cast<const HostBuffer&>(current_->floats).span();
  }

  // Memory of all buffers.
  uint64_t held_bytes() const { return (1 + others_.size()) * size_bytes(); }

  // The current values. No update changes them while a copy of the payload lives.
  Payload Share() const;

  // Memory for the next values. The caller writes every element of `to`; `from` has the values
  // before, and is the same memory if nobody reads them. Valid until the next call.
  struct Change {
    absl::Span<const float> from;
    absl::Span<float> to;
  };
  Change BeginChange();

 private:
  struct Buffer {
    HostBuffer floats;
    std::atomic<int64_t> readers = 0;  // payloads of it
  };

  // A buffer without readers.
  std::shared_ptr<Buffer> TakeFree();

  std::shared_ptr<Buffer> current_;
  std::vector<std::shared_ptr<Buffer>> others_;  // still read, or free
};

// Fills `values` with the initial values of the elements [offset, offset + values.size()) of a
// table: normal around 0 with standard deviation `stddev`. An element depends on (seed, table,
// element) alone, so it is the same in every slicing.
void InitializeValues(uint64_t seed, TableId table, double stddev, uint64_t offset,
                      absl::Span<float> values);

}  // namespace capstan

#endif  // SERVER_SLICE_SLICE_VALUES_H_
