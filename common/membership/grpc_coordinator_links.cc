#include "common/membership/grpc_coordinator_links.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/support/channel_arguments.h>

#include <utility>

#include "common/transport/grpc/grpc_setup.h"

namespace capstan {
namespace {

// Failed attempts to connect are repeated after this time, or sooner.
constexpr int kReconnectMilliseconds = 200;

// A host that is gone may drop packets. An attempt is given up after this time; gRPC's default is
// 20 s. It is enough for the coordinator of a large job, to which all members connect at once.
constexpr int kConnectMilliseconds = 2000;

// Time between two pings of a coordinator that is silent, and the time that it has to answer one.
constexpr int kKeepaliveMilliseconds = 5000;

// A name server that does not answer is asked again after this time; gRPC's default is 120 s.
constexpr int kNameServerMilliseconds = 5000;

// gRPC asks a name server that does not know the host's name less and less often, at last every two
// minutes. A coordinator that was started again may be known a moment later.
constexpr absl::Duration kRefreshInterval = absl::Seconds(1);

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const GrpcSecurity& security) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMilliseconds);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMilliseconds);
  // A coordinator that was started again may have another address. The default is 30 s.
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 1000);
  arguments.SetInt(GRPC_ARG_DNS_ARES_QUERY_TIMEOUT_MS, kNameServerMilliseconds);
  // Otherwise nobody notices for a quarter of an hour that the host is gone.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMilliseconds);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveMilliseconds);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetMaxReceiveMessageSize(kMaxViewBytes);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // the environment would configure it
  // Clients of one process never share a connection: it has room for the calls of one member.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, security.channel_credentials(), arguments);
}

}  // namespace

GrpcCoordinatorLinks::GrpcCoordinatorLinks(std::vector<std::string> addresses,
                                           SecurityPointer security, Clock& clock)
    : addresses_(std::move(addresses)),
      security_(std::move(security)),
      clock_(clock),
      links_(addresses_.size()),
      later_(&clock) {}

GrpcCoordinatorLinks::~GrpcCoordinatorLinks() { later_.Stop(); }

GrpcCoordinatorLinks::LinkPointer GrpcCoordinatorLinks::current() {
  MutexLock lock(&mu_);
  LinkPointer& link = links_[current_];
  if (link == nullptr) {
    const std::string& address = addresses_[current_];
    link = std::make_shared<Link>(
        Link{address, MakeChannel(address, *security_), clock_.Now(), absl::OkStatus()});
  }
  return link;
}

absl::Status GrpcCoordinatorLinks::CheckReady(const LinkPointer& link) {
  if (!has_several()) return absl::OkStatus();
  absl::Status error;
  {
    MutexLock lock(&mu_);
    error = link->error;
  }
  const bool is_ready =
      error.ok() || link->channel->GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY;
  return is_ready ? absl::OkStatus() : error;
}

void GrpcCoordinatorLinks::NoteAnswer(const LinkPointer& link) {
  if (!has_several()) return;
  std::vector<LinkPointer> others;
  {
    MutexLock lock(&mu_);
    link->error = absl::OkStatus();
    if (links_[current_] != link) return;
    for (LinkPointer& other : links_) {
      if (other != link && other != nullptr) others.push_back(std::exchange(other, nullptr));
    }
  }
  for (LinkPointer& other : others) Return(std::move(other));
}

void GrpcCoordinatorLinks::NoteFailure(const LinkPointer& link, const absl::Status& error) {
  const absl::Time now = clock_.Now();
  {
    MutexLock lock(&mu_);
    link->error = error;
    if (links_[current_] == link) current_ = (current_ + 1) % links_.size();
    if (now - link->refreshed < kRefreshInterval) return;
    link->refreshed = now;
  }
  grpc::experimental::ChannelResetConnectionBackoff(link->channel.get());
}

void GrpcCoordinatorLinks::Return(LinkPointer link) {
  {
    MutexLock lock(&mu_);
    for (const LinkPointer& kept : links_) {
      if (kept == link) return;
    }
  }
  later_.RunAfter(absl::ZeroDuration(), [link = std::move(link)](bool) {});
}

}  // namespace capstan
