#ifndef COMMON_TRANSPORT_GRPC_STREAM_LIMIT_H_
#define COMMON_TRANSPORT_GRPC_STREAM_LIMIT_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace capstan {

// Bounds the number of a server's streams, over all its services. Thread-safe.
class StreamLimit {
 public:
  // One of the `max` streams, until the last owner of the place is gone. May outlive the limit.
  using Place = std::shared_ptr<const void>;

  explicit StreamLimit(uint32_t max) : max_(max) {}

  // RESOURCE_EXHAUSTED when all places are taken.
  absl::StatusOr<Place> Take() {
    if (taken_->fetch_add(1) < max_)
      return Place(nullptr, [taken = taken_](const void*) { --*taken; });
    --*taken_;
    return absl::ResourceExhaustedError(
        absl::StrCat("the server holds ", max_, " streams and takes no more; if its job needs ",
                     "more, start it with a larger --max_connections"));
  }

 private:
  const uint32_t max_;
  const std::shared_ptr<std::atomic<uint32_t>> taken_ = std::make_shared<std::atomic<uint32_t>>(0);
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_GRPC_STREAM_LIMIT_H_
