#ifndef COMMON_TRANSPORT_STRIPED_ENDPOINT_H_
#define COMMON_TRANSPORT_STRIPED_ENDPOINT_H_

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "common/base/mutex.h"
#include "common/routing/slice_key.h"
#include "common/transport/parameter_endpoint.h"

namespace capstan {

// Several connections to one server as one: each carries the exchanges of its share of the slices,
// so that those of one slice stay in order. Slices take them in turn as they are first asked for,
// so that those that follow each other at this server, whichever they are, share all connections.
// Thread-safe.
class StripedEndpoint : public ParameterEndpoint {
 public:
  // One connection or more.
  explicit StripedEndpoint(std::vector<std::unique_ptr<ParameterEndpoint>> connections)
      : connections_(std::move(connections)) {}

  void Exchange(ExchangeRequest request, SentCallback sent, ReplyCallback done) override {
    ParameterEndpoint& connection = *connections_[ConnectionOf(request.slice)];
    connection.Exchange(std::move(request), std::move(sent), std::move(done));
  }

 private:
  size_t ConnectionOf(SliceKey slice) {
    MutexLock lock(&mu_);
    return connection_of_.try_emplace(slice, connection_of_.size() % connections_.size())
        .first->second;
  }

  const std::vector<std::unique_ptr<ParameterEndpoint>> connections_;

  Mutex mu_;
  absl::flat_hash_map<SliceKey, size_t> connection_of_ ABSL_GUARDED_BY(mu_);
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_STRIPED_ENDPOINT_H_
