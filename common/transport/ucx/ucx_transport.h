#ifndef COMMON_TRANSPORT_UCX_UCX_TRANSPORT_H_
#define COMMON_TRANSPORT_UCX_UCX_TRANSPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/transport/reply_order.h"
#include "proto/job.pb.h"
#include "proto/ucx_service.pb.h"

namespace capstan {

// Exchanges over UCX, of a build with UCX or without. Thread-safe.
class UcxTransport {
 public:
  struct Options {
    Clock* clock = nullptr;  // Required; outlives the transport
    bool polls = false;      // never sleep: a core for a shorter round trip
    // That UCX may use, as in "tcp,self"; empty: shared memory, the process itself, and RDMA. With
    // tcp UCX takes connections on a port of its own, and whoever reaches that can end the process.
    std::string transports;
    // Of each connection of a listener: for requests that arrive, and as much for replies that wait
    // for the worker to take them.
    uint64_t max_inflight_bytes = 64 << 20;
    // Runs once, on any thread, when shared memory is blocked for good and nothing arrives any
    // more, as UcxThread::Options says.
    std::function<void(const absl::Status&)> on_blocked = [](const absl::Status&) {};
  };
  // One connection of a worker to a listener, as the stream that tells the two of each other's end
  // sees it. All runs on UCX's thread.
  class Guest {
   public:
    virtual ~Guest() = default;
    // What the worker needs to open the connection. Runs once, first, or not at all.
    virtual void OnInvitation(const v1::UcxInvitation& invitation) = 0;
    // The connection has ended, and why. Runs once, last.
    virtual void OnEnd(const absl::Status& status) = 0;
  };
  // Takes exchanges from the guests that it invites until it is destroyed, which ends their
  // connections. Thread-safe.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void Invite(std::shared_ptr<Guest> guest) = 0;
    // The worker has gone: ends the connection. Not after OnEnd.
    virtual void End(Guest* guest) = 0;
    // Ends all connections; guests that are invited later end at once.
    virtual void EndAll() = 0;
  };

  virtual ~UcxTransport() = default;

  // A connection to the server whose UcxService is at `address`, host:port. The transport outlives
  // it. Its exchanges are UNIMPLEMENTED when the server has no UCX, or UCX cannot connect
  // the two ends.
  virtual std::unique_ptr<ParameterEndpoint> Connect(const std::string& address) = 0;

  // `endpoint` answers, on UCX's thread, and each worker gets its replies in `order`; it and the
  // transport outlive the listener.
  virtual std::unique_ptr<Listener> Listen(ParameterEndpoint* endpoint,
                                           const ReplyOrder& order) = 0;
};

// UNIMPLEMENTED: built without UCX. UNAVAILABLE: UCX does not start on this machine.
absl::StatusOr<std::unique_ptr<UcxTransport>> StartUcxTransport(
    const UcxTransport::Options& options);

// The transport that `spec` asks for beside gRPC. Null when there is none, and when UCX does not
// start but gRPC is allowed instead; the reason is logged. Else the errors of StartUcxTransport.
// `clock` outlives the transport. `on_blocked` as in UcxTransport::Options.
absl::StatusOr<std::unique_ptr<UcxTransport>> StartUcxTransportOfJob(
    const v1::TransportSpec& spec, Clock* clock,
    std::function<void(const absl::Status&)> on_blocked);

}  // namespace capstan

#endif  // COMMON_TRANSPORT_UCX_UCX_TRANSPORT_H_
