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
#include "common/transport/ucx/ucx_admission.h"
#include "proto/job.pb.h"
#include "proto/ucx_service.pb.h"

namespace capstan {

// Exchanges over UCX. This interface exists in builds without UCX too. Thread-safe.
class UcxTransport {
 public:
  struct Options {
    Clock* clock = nullptr;  // Required; outlives the transport
    bool polls = false;      // never sleep: takes a core, and shortens round trips
    // Names of UCX's transports, as in "tcp,self". Empty: shared memory, the process itself, RDMA.
    // With tcp UCX opens a port, and anyone with access to the port can end the process.
    std::string transports;
    // Bound for each connection of a listener: for arriving requests, and the same for replies not
    // yet taken by the worker.
    uint64_t max_inflight_bytes = 64 << 20;
    // Runs once, on any thread, if shared memory is blocked for ever and no message arrives any
    // more. See UcxThread::Options.
    std::function<void(const absl::Status&)> on_blocked = [](const absl::Status&) {};
    UcxMember member;  // who this process is, as a worker
  };
  // The stream of one worker's connection to a listener. Worker and listener learn each other's end
  // by it. All methods run on UCX's thread.
  class Guest {
   public:
    virtual ~Guest() = default;
    // The 16 bytes that the worker must repeat over UCX. Valid for one connection.
    virtual std::string secret() const = 0;
    // The worker opens the connection with `invitation`, which lacks the secret. Runs at most once,
    // first.
    virtual void OnInvitation(const v1::UcxInvitation& invitation) = 0;
    // The connection has ended for the reason in `status`. Runs once, last.
    virtual void OnEnd(const absl::Status& status) = 0;
  };
  // Takes exchanges from invited guests. The destructor ends their connections. Thread-safe.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void Invite(std::shared_ptr<Guest> guest) = 0;
    // The worker has gone: ends the connection. Must not follow OnEnd.
    virtual void End(Guest* guest) = 0;
    // Ends all connections. Guests invited later end at once.
    virtual void EndAll() = 0;
  };

  virtual ~UcxTransport() = default;

  // A connection to the server at `address`, host:port of its UcxService. The transport outlives
  // it. Exchanges are answered with UNIMPLEMENTED if the server has no UCX, or if UCX cannot
  // connect the two ends.
  virtual std::unique_ptr<ParameterEndpoint> Connect(const std::string& address) = 0;

  // `endpoint` answers the exchanges, on UCX's thread. Each worker gets its replies in `order`.
  // `endpoint` and the transport outlive the listener.
  virtual std::unique_ptr<Listener> Listen(ParameterEndpoint* endpoint,
                                           const ReplyOrder& order) = 0;
};

// UNIMPLEMENTED: the program is built without UCX. UNAVAILABLE: UCX does not start on this machine.
absl::StatusOr<std::unique_ptr<UcxTransport>> StartUcxTransport(
    const UcxTransport::Options& options);

// The transport for `spec` and `member`. Unless plaintext may leave the host, by
// `insecure_data_plane` or --insecure, it has shared memory alone, since UCX does not encrypt. Null
// if `spec` is GRPC. Also null, with a warning in the log, if `spec` is AUTO and UCX does not
// start. Otherwise returns the errors of StartUcxTransport, and INVALID_ARGUMENT for transports
// that leave the host although they must not. `clock` outlives the transport. `on_blocked`: see
// UcxTransport::Options.
absl::StatusOr<std::unique_ptr<UcxTransport>> StartUcxTransportOfJob(
    const v1::TransportSpec& spec, Clock* clock,
    std::function<void(const absl::Status&)> on_blocked, UcxMember member = {});

}  // namespace capstan

#endif  // COMMON_TRANSPORT_UCX_UCX_TRANSPORT_H_
