#ifndef COMMON_TRANSPORT_UCX_TRANSPORT_H_
#define COMMON_TRANSPORT_UCX_TRANSPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/transport/parameter_endpoint.h"
#include "common/transport/reply_order.h"

namespace capstan {

// Exchanges over UCX, of a build with UCX or without. Thread-safe.
class UcxTransport {
 public:
  struct Options {
    Clock* clock = nullptr;  // Required; outlives the transport
    bool polls = false;      // never sleep: a core for a shorter round trip
    std::string transports;  // of UCX, as in "tcp,self"; empty: UCX chooses
    // Of each connection of a listener: for requests that arrive, and as much for replies that wait
    // for the worker to take them.
    uint64_t max_inflight_bytes = 64 << 20;
    // Runs once, on any thread, when shared memory is blocked for good and nothing arrives any
    // more, as UcxThread::Options says.
    std::function<void(const absl::Status&)> on_blocked = [](const absl::Status&) {};
  };
  // Takes exchanges from workers until it is destroyed.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual const std::string& address() const = 0;  // host:port, with the port that was taken
  };

  virtual ~UcxTransport() = default;

  // A connection to the server that listens on `address`. The transport outlives it.
  virtual std::unique_ptr<ParameterEndpoint> Connect(const std::string& address) = 0;

  // `address` is host:port; port 0 takes a free one. `endpoint` answers, on UCX's thread, and each
  // worker gets its replies in `order`; it and the transport outlive the listener. UNAVAILABLE when
  // the port is in use or the host is not of this machine.
  virtual absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                           ParameterEndpoint* endpoint,
                                                           const ReplyOrder& order) = 0;
};

// UNIMPLEMENTED: built without UCX. UNAVAILABLE: UCX does not start on this machine.
absl::StatusOr<std::unique_ptr<UcxTransport>> StartUcxTransport(
    const UcxTransport::Options& options);

}  // namespace capstan

#endif  // COMMON_TRANSPORT_UCX_TRANSPORT_H_
