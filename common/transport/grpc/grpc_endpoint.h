#ifndef COMMON_TRANSPORT_GRPC_GRPC_ENDPOINT_H_
#define COMMON_TRANSPORT_GRPC_GRPC_ENDPOINT_H_

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/transport/grpc/grpc_security.h"

namespace capstan {

class GrpcStream;

// A connection to one server: to its ParameterService, or from another server to its
// ReplicaService. The first exchange opens a bidirectional stream. If the stream breaks, all open
// exchanges are answered with UNAVAILABLE, and the next exchange opens a new stream. Thread-safe.
class GrpcEndpoint : public ParameterEndpoint {
 public:
  // `address` is host:port. `clock` outlives the endpoint. `role` is this process's. The server
  // refuses requests of another role with INVALID_ARGUMENT.
  GrpcEndpoint(const std::string& address, Clock* clock, SecurityPointer security = NoSecurity(),
               SenderRole role = SenderRole::kWorker);
  // Answers open exchanges, and waits for the end of the last callback.
  ~GrpcEndpoint() override;

  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override;

 private:
  class Connection;

  // The stream for new exchanges. Opens one if there is none. Null during destruction.
  std::shared_ptr<GrpcStream> OpenStream();
  void OnStreamEnd(std::shared_ptr<GrpcStream> stream);
  // A better reason why no stream has ever worked. Looks for one once.
  absl::Status ExplainFailure(const absl::Status& status);

  const std::string address_;
  Clock* const clock_;
  const SecurityPointer security_;
  const SenderRole role_;
  const std::unique_ptr<Connection> connection_;

  Mutex mu_;
  CondVar stream_ended_;
  bool is_closing_ ABSL_GUARDED_BY(mu_) = false;
  std::shared_ptr<GrpcStream> stream_ ABSL_GUARDED_BY(mu_);
  int live_streams_ ABSL_GUARDED_BY(mu_) = 0;
  bool has_explained_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status distrust_ ABSL_GUARDED_BY(mu_);  // between this process and the server, if found
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_GRPC_GRPC_ENDPOINT_H_
