#ifndef COMMON_MEMBERSHIP_GRPC_COORDINATOR_LINKS_H_
#define COMMON_MEMBERSHIP_GRPC_COORDINATOR_LINKS_H_

#include <grpcpp/channel.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/delayed_calls.h"
#include "common/base/mutex.h"
#include "common/transport/grpc/grpc_security.h"

namespace capstan {

// The connections of a process to the addresses where its coordinator may be. One is the current
// one. If the coordinator does not answer there, the next address becomes the current one.
// Thread-safe.
class GrpcCoordinatorLinks {
 public:
  // A connection. Whoever has got one gives it back by Return.
  struct Link {
    std::string address;
    std::shared_ptr<grpc::Channel> channel;
    // Guarded by mu_.
    absl::Time refreshed;
    absl::Status error;  // OK: no call has failed since the last answer
  };
  using LinkPointer = std::shared_ptr<Link>;

  // At least one address, host:port. `clock` outlives the links.
  GrpcCoordinatorLinks(std::vector<std::string> addresses, SecurityPointer security, Clock& clock);
  ~GrpcCoordinatorLinks();

  bool has_several() const { return addresses_.size() > 1; }
  LinkPointer current();
  // Not OK: a call over the link would wait, although the last one has failed, and there are other
  // addresses. It is that failure; the link goes on connecting.
  absl::Status CheckReady(const LinkPointer& link);
  // The coordinator has answered here: ends the connections to other addresses.
  void NoteAnswer(const LinkPointer& link);
  // It has not. Does not move on from another link than the current one.
  void NoteFailure(const LinkPointer& link, const absl::Status& error);
  // A channel must not be destroyed by one of its own threads: the clock's thread does it.
  void Return(LinkPointer link);

 private:
  const std::vector<std::string> addresses_;
  const SecurityPointer security_;
  Clock& clock_;

  Mutex mu_;
  size_t current_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<LinkPointer> links_ ABSL_GUARDED_BY(mu_);  // by address; null: not connected

  DelayedCalls later_;
};

}  // namespace capstan

#endif  // COMMON_MEMBERSHIP_GRPC_COORDINATOR_LINKS_H_
