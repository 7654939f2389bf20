#include "server/service/replica_links.h"

#include <utility>

namespace capstan {

ReplicaLink* ReplicaLinks::To(const std::string& address, Incarnation process) {
  std::unique_ptr<Link>& link = links_[process];
  if (link == nullptr) link = std::make_unique<Link>(sender_, connect_(address), clock_);
  return link.get();
}

void ReplicaLinks::Link::Send(ReplicaRecord record, ParameterEndpoint::ReplyCallback done) {
  ExchangeRequest request;
  request.sender = sender_;
  request.purpose = std::move(record);
  endpoint_->Exchange(
      std::move(request), [] {}, std::move(done));
}

void ReplicaLinks::Link::RunAfter(absl::Duration delay, absl::AnyInvocable<void()> call) {
  calls_.RunAfter(delay, [call = std::move(call)](bool is_due) mutable {
    if (is_due) call();
  });
}

}  // namespace capstan
