#include "tests/simulation/bad_end.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace capstan {
namespace {

// Together the pauses of a member and of the coordinator, who hears nothing during its own, can be
// as long as a lease, but for the time that a member waits between heartbeats and the network needs
// to bring one, if need be a second time; or the member dies. A network that drops messages may
// drop several heartbeats in a row.
bool CanSilence(const Scenario& scenario, Fault::Kind pause, Fault::Kind kill, uint32_t process) {
  if (scenario.network.drop > 0) return true;
  absl::Duration silence;
  for (const Fault& fault : scenario.faults) {
    const bool is_of_process = fault.process == process;
    if (fault.kind == kill && is_of_process) return true;
    if (fault.kind == Fault::Kind::kPauseCoordinator || (fault.kind == pause && is_of_process)) {
      silence += fault.pause;
    }
  }
  const v1::MembershipSpec& membership = scenario.job.membership();
  return silence >= absl::Seconds(membership.lease_seconds() - 2 * membership.heartbeat_seconds());
}

bool CanSilenceServer(const Scenario& scenario, uint32_t process) {
  return CanSilence(scenario, Fault::Kind::kPauseServer, Fault::Kind::kKillServer, process);
}

// Of the workers that start with the job; nothing befalls those that take their places.
uint32_t WorkersThatCanBeSilenced(const Scenario& scenario) {
  uint32_t count = 0;
  for (uint32_t process = 0; process < scenario.job.cluster().num_workers(); ++process) {
    count += CanSilence(scenario, Fault::Kind::kPauseWorker, Fault::Kind::kKillWorker, process);
  }
  return count;
}

bool MayFailFor(const Scenario& scenario, absl::string_view reason) {
  if (!absl::StrContains(reason, "has been silent for")) return false;
  if (absl::StrContains(reason, "last live worker")) {
    return WorkersThatCanBeSilenced(scenario) == scenario.job.cluster().num_workers();
  }
  for (uint32_t process = 0; process < scenario.job.cluster().num_servers(); ++process) {
    // Its port is the process + 1.
    if (absl::StrContains(reason, absl::StrCat("(simulated:", process + 1, ")"))) {
      return CanSilenceServer(scenario, process);
    }
  }
  return absl::StrContains(reason, "before training began") &&
         WorkersThatCanBeSilenced(scenario) > 0;
}

bool CanLackMember(const Scenario& scenario) {
  return std::any_of(scenario.faults.begin(), scenario.faults.end(), [](const Fault& fault) {
    const bool is_kill =
        fault.kind == Fault::Kind::kKillServer || fault.kind == Fault::Kind::kKillWorker;
    return is_kill && fault.replaced_after == absl::ZeroDuration();
  });
}

}  // namespace

std::string BadEnd(const Scenario& scenario, const SimulationResult& result) {
  if (!result.outcome.has_value()) {
    return result.is_registering && CanLackMember(scenario) ? "" : "the job has hung";
  }
  const absl::Status& status = result.outcome->status;
  if (status.ok() || MayFailFor(scenario, status.message())) return "";
  return absl::StrCat("the job has failed: ", status.message());
}

}  // namespace capstan
