#ifndef COMMON_TRANSPORT_FAILED_ENDPOINT_H_
#define COMMON_TRANSPORT_FAILED_ENDPOINT_H_

#include <utility>

#include "absl/status/status.h"
#include "common/transport/parameter_endpoint.h"

namespace capstan {

// A connection that could not be made: says why to every exchange. Thread-safe.
class FailedEndpoint : public ParameterEndpoint {
 public:
  // `status` is an error.
  explicit FailedEndpoint(absl::Status status) : status_(std::move(status)) {}

  void Exchange(ExchangeRequest /*request*/, SentCallback sent, ReplyCallback done) override {
    sent();
    done(ErrorReply(status_));
  }

 private:
  const absl::Status status_;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_FAILED_ENDPOINT_H_
