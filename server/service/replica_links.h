#ifndef SERVER_SERVICE_REPLICA_LINKS_H_
#define SERVER_SERVICE_REPLICA_LINKS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/base/delayed_calls.h"
#include "common/base/ids.h"
#include "common/exchange/exchange_request.h"
#include "common/exchange/parameter_endpoint.h"
#include "server/shard/copy_sender.h"

namespace capstan {

// A server's connections to the servers that have copies of its shards: one for each process. Used
// by one thread; the links are thread-safe.
class ReplicaLinks {
 public:
  // Connects to the server at an address, host:port, for records.
  using Connect = std::function<std::unique_ptr<ParameterEndpoint>(const std::string& address)>;

  // `sender`: the job, and the id and incarnation of this server. `clock` outlives this.
  ReplicaLinks(Connect connect, Sender sender, Clock* clock)
      : connect_(std::move(connect)), sender_(sender), clock_(clock) {}

  // The link to the process of a server at this address.
  ReplicaLink* To(const std::string& address, Incarnation process);

 private:
  class Link : public ReplicaLink {
   public:
    Link(const Sender& sender, std::unique_ptr<ParameterEndpoint> endpoint, Clock* clock)
        : sender_(sender), calls_(clock), endpoint_(std::move(endpoint)) {}

    ~Link() override { calls_.Stop(); }

    void Send(ReplicaRecord record, ParameterEndpoint::ReplyCallback done) override;
    void RunAfter(absl::Duration delay, absl::AnyInvocable<void()> call) override;

   private:
    const Sender sender_;
    DelayedCalls calls_;
    // Destroyed first: it then answers what is open.
    const std::unique_ptr<ParameterEndpoint> endpoint_;
  };

  const Connect connect_;
  const Sender sender_;
  Clock* const clock_;
  std::map<Incarnation, std::unique_ptr<Link>> links_;
};

}  // namespace capstan

#endif  // SERVER_SERVICE_REPLICA_LINKS_H_
