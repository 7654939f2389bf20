#ifndef TESTS_SIMULATION_COORDINATOR_CHECK_H_
#define TESTS_SIMULATION_COORDINATOR_CHECK_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/membership/coordinator_endpoint.h"
#include "proto/coordinator_service.pb.h"
#include "server/coordinator/state/state_store.h"

namespace capstan {

// Checks what the coordinators of one job tell its members, one term after the other: nothing
// contradicts what was told before, and nothing that was told is forgotten. Guarded by the baton.
class CoordinatorCheck {
 public:
  // A term begins with what an earlier one has kept; null: with nothing.
  void BeginTerm(uint64_t term, const SavedJob* base);

  // The coordinator of a term that has begun, as members are to see it. The check and the
  // coordinator outlive it.
  std::unique_ptr<CoordinatorEndpoint> Watch(uint64_t term, CoordinatorEndpoint* coordinator);

  // A heartbeat leaves its member.
  void NoteHeartbeat(const v1::HeartbeatRequest& heartbeat);
  // A coordinator has reported the end of the job: the reason, or empty.
  void NoteOutcome(absl::string_view reason);

  // The first finding, "rule: what is wrong"; empty: nothing.
  const std::string& fault() const { return fault_; }
  int64_t terms() const { return static_cast<int64_t>(bases_.size()); }

 private:
  class Watched;
  // What a term begins with.
  struct Base {
    uint64_t version = 0;             // of its view
    std::set<uint64_t> incarnations;  // of those who are or were members
    v1::Phase phase = v1::PHASE_UNSPECIFIED;
  };
  // What a term has told.
  struct Told {
    uint64_t version = 0;             // of the newest view
    std::set<uint64_t> incarnations;  // of those who were told that they are members
    v1::Phase end = v1::PHASE_UNSPECIFIED;
  };

  uint64_t newest_term() const { return bases_.empty() ? 0 : bases_.rbegin()->first; }
  // `newest`: the newest term when the request came.
  void NoteReply(uint64_t term, uint64_t newest, uint64_t incarnation,
                 const absl::StatusOr<CoordinatorReply>& reply);
  void NoteView(uint64_t term, const v1::JobView& view);
  // Views, in any order of their versions, have the same periods of consistency, and then more.
  void CheckPeriods(const v1::JobView& view);
  void CheckPlacement(const v1::JobView& view);
  // What the term has told is in all that later ones begin with.
  void CheckKept(uint64_t term);
  void CheckKept(uint64_t term, const Told& told, uint64_t later, const Base& base);
  void NoteFault(std::string fault) {
    if (fault_.empty()) fault_ = std::move(fault);
  }

  std::map<uint64_t, Base> bases_;  // by term
  std::map<uint64_t, Told> told_;   // by term
  std::map<uint64_t, std::string> views_;
  std::map<uint64_t, std::vector<uint32_t>> server_of_shard_;         // by epoch
  std::map<std::pair<uint32_t, uint64_t>, uint32_t> server_of_copy_;  // by shard and number
  std::vector<std::string> periods_;                                  // of consistency
  uint64_t periods_version_ = 0;                                      // of their view
  // By incarnation and v1::HeartbeatRequest::part.
  std::map<std::pair<uint64_t, uint32_t>, std::pair<uint64_t, uint64_t>> versions_of_member_;
  std::set<std::string> outcomes_;
  std::string fault_;
};

}  // namespace capstan

#endif  // TESTS_SIMULATION_COORDINATOR_CHECK_H_
