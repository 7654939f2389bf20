#ifndef COMMON_TRANSPORT_FALLBACK_ENDPOINT_H_
#define COMMON_TRANSPORT_FALLBACK_ENDPOINT_H_

#include <glog/logging.h>

#include <atomic>
#include <memory>
#include <utility>

#include "common/transport/parameter_endpoint.h"

namespace capstan {

// Uses the first endpoint until it answers UNIMPLEMENTED, then the second. That answer becomes
// UNAVAILABLE, so that the exchange is tried again. Thread-safe.
class FallbackEndpoint : public ParameterEndpoint {
 public:
  FallbackEndpoint(std::unique_ptr<ParameterEndpoint> first,
                   std::unique_ptr<ParameterEndpoint> second)
      : second_(std::move(second)), first_(std::move(first)) {}

  void Exchange(ExchangeRequest request, SentCallback sent, ReplyCallback done) override {
    if (has_fallen_back_) {
      return second_->Exchange(std::move(request), std::move(sent), std::move(done));
    }
    first_->Exchange(std::move(request), std::move(sent),
                     [this, done = std::move(done)](ExchangeReply reply) mutable {
                       if (absl::IsUnimplemented(reply.status)) FallBack(reply);
                       done(std::move(reply));
                     });
  }

 private:
  void FallBack(ExchangeReply& reply) {
    if (!has_fallen_back_.exchange(true)) {
      LOG(WARNING) << "exchanges go over gRPC: " << reply.status.message();
    }
    reply.status = absl::UnavailableError(reply.status.message());
  }

  std::atomic<bool> has_fallen_back_ = false;
  const std::unique_ptr<ParameterEndpoint> second_;
  std::unique_ptr<ParameterEndpoint> first_;  // Ends first: it answers then what is open.
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_FALLBACK_ENDPOINT_H_
