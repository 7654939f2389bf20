#ifndef COMMON_TRANSPORT_UCX_GRPC_UCX_STREAM_H_
#define COMMON_TRANSPORT_UCX_GRPC_UCX_STREAM_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/transport/ucx/ucx_admission.h"
#include "proto/ucx_service.grpc.pb.h"

namespace capstan {

// A worker's gRPC stream. When it ends, its UCX connection ends. Keeps itself alive until gRPC is
// done with it. Thread-safe.
class GrpcUcxStream : public grpc::ClientReadReactor<v1::UcxInvitation>,
                      public std::enable_shared_from_this<GrpcUcxStream> {
 public:
  using StreamPointer = std::shared_ptr<GrpcUcxStream>;
  // Both run on gRPC's threads: on_invitation at most once, on_end once and last.
  struct Callbacks {
    std::function<void(const StreamPointer&, const v1::UcxInvitation&)> on_invitation;
    // UNIMPLEMENTED: the server has no UCX. UNAUTHENTICATED, PERMISSION_DENIED: one side does not
    // admit the other.
    std::function<void(const StreamPointer&, const absl::Status&)> on_end;
  };

  // `on_destroyed` runs when the stream no longer uses the stub's channel.
  GrpcUcxStream(UcxMember member, Callbacks callbacks, std::function<void()> on_destroyed)
      : on_destroyed_{std::move(on_destroyed)},
        member_(std::move(member)),
        callbacks_(std::move(callbacks)) {}

  // `address` is the server's, host:port.
  void Start(v1::UcxService::Stub& stub, const std::string& address);
  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

 private:
  // The first member: runs after the destructor of the context, which shares the channel.
  struct AtEnd {
    ~AtEnd() { run(); }
    const std::function<void()> run;
  };

  const AtEnd on_destroyed_;
  const UcxMember member_;
  const Callbacks callbacks_;
  grpc::ClientContext context_;
  v1::OpenUcxRequest request_;
  v1::UcxInvitation invitation_;  // used by reads alone, one at a time
  bool has_invitation_ = false;   // used by reads alone
  absl::Status distrust_;         // of the server; used by reads, and after them
  StreamPointer self_;
};

// Opens streams to one server. Thread-safe.
class GrpcUcxOpener {
 public:
  // `address` is host:port. `clock` outlives the opener.
  GrpcUcxOpener(const std::string& address, Clock* clock, const UcxMember& member = {});

  std::shared_ptr<GrpcUcxStream> Open(GrpcUcxStream::Callbacks callbacks);

  // Waits until all streams are destroyed; the caller must not hold one. Must precede the
  // destructor. Otherwise the last user of gRPC may be a stream that ends on a thread of gRPC, and
  // gRPC 1.51 then frees memory that this thread still uses.
  void AwaitEnd();

 private:
  const std::string address_;
  Clock* const clock_;
  const UcxMember member_;
  const std::unique_ptr<v1::UcxService::Stub> stub_;

  Mutex mu_;
  CondVar stream_destroyed_;
  int live_streams_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_UCX_GRPC_UCX_STREAM_H_
