#ifndef SERVER_COORDINATOR_MEMBERS_REGISTRATION_H_
#define SERVER_COORDINATOR_MEMBERS_REGISTRATION_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/routing/routing_table.h"
#include "proto/coordinator_service.pb.h"
#include "server/coordinator/members/job_event.h"
#include "server/coordinator/members/job_facts.h"
#include "server/coordinator/members/member_key.h"

namespace capstan {

// Says which process becomes a member of the job, in which place, and until when all must have
// come. Adds them to the facts. Not thread-safe.
class Registration {
 public:
  struct Place {
    enum class Kind {
      kKnown,  // the process had it before
      kNew,
      kOfDeadWorker,
      kOfDeadServer
    };
    uint32_t id = 0;
    Kind kind = Kind::kKnown;
  };

  // `facts` must outlive this.
  explicit Registration(JobFacts& facts);

  // The live server that has ended, since this process, which may become a server, has its address.
  std::optional<uint32_t> FindEnded(const v1::RegisterServerRequest& request) const;
  // INVALID_ARGUMENT: the address, the host, the rank or the tables are bad. FAILED_PRECONDITION:
  // all places are taken, or the job or this member has ended. RESOURCE_EXHAUSTED: a worker may
  // take a dead one's place, but all are live. `slice_bytes` is how tables are cut so far.
  absl::StatusOr<Place> AddServer(const v1::RegisterServerRequest& request, JobEvents& events);
  absl::StatusOr<Place> AddWorker(const v1::RegisterWorkerRequest& request, uint64_t slice_bytes,
                                  JobEvents& events);
  // The smaller id that must be registered before this worker's rank; none: it is its turn.
  std::optional<uint32_t> Before(const v1::RegisterWorkerRequest& request) const;

  // By then all must have come; InfiniteFuture: nobody is missing, or the job waits forever.
  absl::Time deadline() const;
  // For people, after the deadline: who is missing, and who was refused.
  std::string MissingText() const;

 private:
  // A process that asks for a place.
  struct Newcomer {
    Role role;
    Incarnation incarnation;
    ServerAddress address;  // Servers only.
    std::string host;
    bool may_enter_late = false;
    std::optional<uint32_t> rank;
  };

  static Newcomer ServerOf(const v1::RegisterServerRequest& request);
  absl::StatusOr<Place> Add(const Newcomer& newcomer, JobEvents& events);
  absl::StatusOr<Place> TakePlaceOfDeadServer(const Newcomer& newcomer, JobEvents& events);
  // Whether a process that is no member yet may become one.
  absl::Status CheckNewcomer(const Newcomer& newcomer) const;
  absl::Status CheckRank(uint32_t rank) const;

  JobFacts& facts_;
  const absl::Time deadline_;
  std::string last_refusal_;  // of a worker whose tables did not fit; empty: none
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_MEMBERS_REGISTRATION_H_
