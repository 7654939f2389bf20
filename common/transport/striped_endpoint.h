#ifndef COMMON_TRANSPORT_STRIPED_ENDPOINT_H_
#define COMMON_TRANSPORT_STRIPED_ENDPOINT_H_

#include <memory>
#include <utility>
#include <vector>

#include "common/transport/parameter_endpoint.h"

namespace capstan {

// Several connections to one server as one: each carries the exchanges of its share of the slices,
// so that those of one slice stay in order. Thread-safe.
class StripedEndpoint : public ParameterEndpoint {
 public:
  // One connection or more.
  explicit StripedEndpoint(std::vector<std::unique_ptr<ParameterEndpoint>> connections)
      : connections_(std::move(connections)) {}

  void Exchange(ExchangeRequest request, SentCallback sent, ReplyCallback done) override {
    // Both many slices of one table and many tables of one slice spread evenly.
    const uint64_t slice = uint64_t{request.slice.table.value()} + request.slice.slice.value();
    connections_[slice % connections_.size()]->Exchange(std::move(request), std::move(sent),
                                                        std::move(done));
  }

 private:
  const std::vector<std::unique_ptr<ParameterEndpoint>> connections_;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_STRIPED_ENDPOINT_H_
