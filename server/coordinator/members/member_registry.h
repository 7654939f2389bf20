#ifndef SERVER_COORDINATOR_MEMBERS_MEMBER_REGISTRY_H_
#define SERVER_COORDINATOR_MEMBERS_MEMBER_REGISTRY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/routing/routing_table.h"
#include "proto/coordinator_service.pb.h"
#include "proto/coordinator_state.pb.h"
#include "server/coordinator/members/member_key.h"

namespace capstan {

// One registered server or worker.
struct Member {
  Incarnation incarnation;
  ServerAddress address;  // Servers only.
  std::string host;       // v1::RegisterServerRequest::host
  std::string end;        // Why it is no member any more; empty while it is live.
  uint64_t view_version = 0;
  v1::Progress progress;  // Workers only.
  v1::ServerLoad load;    // Servers only.
  Step first_step;        // Workers only.
  // Workers only: it has a dead one's place, and no first step yet (EnteringWorkers).
  bool is_entering = false;
  // Workers only: it has left, and no step lacks it. In a job that stays it had done its steps,
  // elsewhere it came after all of them.
  bool is_needless = false;
  bool has_left = false;      // as in v1::WorkerInfo
  bool entered_late = false;  // as in v1::WorkerInfo
  // Workers only, as in v1::WorkerInfo; and since when the place has no worker.
  bool holds_place = false;
  absl::Time lost_at;

  // Takes what the heartbeat says. An older one may arrive after a newer one.
  void Update(const v1::HeartbeatRequest& heartbeat);
  bool is_live() const { return end.empty(); }
  bool is_lost() const { return !is_live() && !is_needless; }
};

// The members of the job. Ids are given in order of registration, never twice. Not thread-safe.
class MemberRegistry {
 public:
  MemberRegistry(uint32_t num_servers, uint32_t num_workers)
      : num_servers_(num_servers), num_workers_(num_workers) {}

  // Whether it was a member whose place another process has taken.
  bool IsReplaced(Incarnation incarnation) const { return replaced_.count(incarnation) > 0; }
  // The id of the member with this incarnation, if there is one.
  std::optional<uint32_t> FindIncarnation(Role role, Incarnation incarnation) const;
  // The new member's id. FAILED_PRECONDITION: all places are taken.
  absl::StatusOr<uint32_t> Add(Role role, Incarnation incarnation, const ServerAddress& address,
                               const std::string& host = "");
  // Gives the place of the first dead worker, or of the one with this rank, to another process. A
  // held place comes before others. Returns the worker's id. RESOURCE_EXHAUSTED: all are live, or
  // this one is.
  absl::StatusOr<uint32_t> TakePlaceOfDeadWorker(Incarnation incarnation,
                                                 std::optional<uint32_t> rank = std::nullopt);
  // Gives the place of a dead server to another process: of the one with this address, else of the
  // first one. Returns the server's id; none: all are live.
  std::optional<uint32_t> TakePlaceOfDeadServer(Incarnation incarnation,
                                                const ServerAddress& address,
                                                const std::string& host);
  // The worker begins at this step.
  void BeginAt(uint32_t worker, Step first_step);
  // Borrowed until the next Add. INVALID_ARGUMENT: the role is unknown. FAILED_PRECONDITION: the id
  // is unknown, the incarnation is another one, or the member has left or was declared dead.
  absl::StatusOr<Member*> Find(MemberKey key, Incarnation incarnation);

  // All places are taken.
  bool is_complete() const {
    return servers_.size() == num_servers_ && workers_.size() == num_workers_;
  }
  // A place of this role has never been taken.
  bool Lacks(Role role) const;
  // "1 of 2 servers (0) and 3 of 8 workers (0 to 2) have registered; server 1 and workers 3 to 7
  // missing". Only while it is not complete.
  std::string RollCall() const;
  // The last progress of each lost worker that was replaced.
  const std::vector<v1::Progress>& replaced_workers() const { return replaced_workers_; }
  // So many times another process has taken the place of a dead server.
  size_t servers_replaced() const { return servers_replaced_; }
  const std::vector<Member>& servers() const { return servers_; }
  const std::vector<Member>& workers() const { return workers_; }
  std::vector<Member>& OfRole(Role role);

  size_t LiveServerCount() const;
  bool IsLiveServer(uint32_t server) const {
    return server < servers_.size() && servers_[server].is_live();
  }
  // All live servers have acted on a view of this version or a later one.
  bool ServersHaveSeen(uint64_t view_version) const;
  // False while a place is held.
  bool LiveWorkersHaveFinished() const;
  // Whether a worker is live, or its place is held.
  bool HasWorkers() const;
  // The hosts of all members.
  std::set<std::string> Hosts() const;
  std::optional<uint32_t> LowestLiveWorker() const;
  bool HasEnteringWorkers() const;
  // The live workers that have begun, and still have steps to do.
  std::vector<const Member*> Computing() const;
  // The latest one at which a worker has begun, also of those replaced.
  Step latest_first_step() const { return latest_first_step_; }
  // Writes the view's members.
  void WriteTo(v1::JobView& view) const;
  // Writes what is not in the view, of a job that has ended or not.
  void WriteTo(v1::CoordinatorState& state, bool has_ended) const;
  // Takes the members of the state and of its view. Nobody has members yet.
  void Restore(const v1::CoordinatorState& state);

 private:
  // Whose place is given to another process next; none: all are live, or this one is.
  std::optional<uint32_t> FindDeadWorker(std::optional<uint32_t> rank) const;

  const uint32_t num_servers_;
  const uint32_t num_workers_;
  std::vector<Member> servers_;
  std::vector<Member> workers_;
  std::vector<v1::Progress> replaced_workers_;
  size_t servers_replaced_ = 0;
  std::set<Incarnation> replaced_;
  Step latest_first_step_;
};

// A worker has done all its steps.
bool HasFinished(const v1::Progress& progress);

// INVALID_ARGUMENT unless it is SERVER or WORKER.
absl::Status CheckRole(Role role);

// INVALID_ARGUMENT unless `address` is host:port.
absl::Status CheckAddress(absl::string_view address);

}  // namespace capstan

#endif  // SERVER_COORDINATOR_MEMBERS_MEMBER_REGISTRY_H_
