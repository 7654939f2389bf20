#include "tests/simulation/coordinator_loss_scenario.h"

#include <vector>

#include "absl/time/time.h"
#include "common/base/random.h"

namespace capstan {
namespace {

absl::Duration Between(Random& random, absl::Duration least, absl::Duration most) {
  return least + random.UniformFloat() * (most - least);
}

// Members come to another coordinator within a lease, so leases are longer, and all that is to
// outlast one.
void StretchLeases(double factor, Scenario& life) {
  v1::MembershipSpec& membership = *life.job.mutable_membership();
  const absl::Duration lease = absl::Seconds(membership.lease_seconds());
  membership.set_lease_seconds(factor * membership.lease_seconds());
  for (Fault& fault : life.faults) {
    if (fault.kind != Fault::Kind::kPauseWorker || fault.pause < lease) continue;
    fault.pause *= factor;
    fault.replaced_after *= factor;
  }
  for (ServerLoss& loss : life.server_losses) loss.pause *= factor;
  if (!life.lost_registration.has_value()) return;
  life.lost_registration->replaced_after *= factor;
  life.lost_registration->returns_after *= factor;
}

// When something happens in this life.
std::vector<absl::Duration> EventsOf(const Scenario& life) {
  std::vector<absl::Duration> events = life.checkpoint_requests;
  for (const ConsistencySetting& setting : life.settings) events.push_back(setting.at);
  for (const Fault& fault : life.faults) events.push_back(fault.at);
  for (const ServerLoss& loss : life.server_losses) {
    // Servers' losses come last in a job's events, and are to meet those of coordinators most.
    events.insert(events.end(), 2, loss.at);
    events.push_back(loss.at + loss.returns_after);
  }
  return events;
}

CoordinatorLoss DrawLoss(Random& random, const Scenario& life) {
  const absl::Duration usual_time = absl::Milliseconds(15) * life.steps;
  CoordinatorLoss loss;
  if (random.Bernoulli(0.4)) loss.kind = CoordinatorLoss::Kind::kPause;
  const std::vector<absl::Duration> events = EventsOf(life);
  const double kind = random.UniformFloat();
  if (kind < 0.2) {
    loss.at = Between(random, absl::ZeroDuration(), absl::Milliseconds(60));  // while all register
  } else if (kind < 0.35) {
    loss.waits_for_evaluation = true;
  } else if (kind < 0.7 && !events.empty()) {
    loss.at = events[random.UniformInt(events.size())] +
              Between(random, absl::Milliseconds(-30), absl::Milliseconds(100));
    if (loss.at < absl::ZeroDuration()) loss.at = absl::ZeroDuration();
  } else {
    loss.at = Between(random, absl::ZeroDuration(), 2 * usual_time);
  }
  loss.waits_for_save = random.Bernoulli(0.4);
  // A coordinator that has stood still for long, and was not replaced, takes members for dead.
  const bool is_short = loss.kind == CoordinatorLoss::Kind::kPause || random.Bernoulli(0.5);
  loss.returns_after = Between(random, absl::Milliseconds(1),
                               is_short ? absl::Milliseconds(100) : absl::Milliseconds(1500));
  loss.pause = loss.returns_after * (random.Bernoulli(0.2) ? 0.5 : 1) +
               Between(random, absl::ZeroDuration(), absl::Milliseconds(800));
  return loss;
}

void DrawLosses(Random& random, Scenario& life) {
  life.keeps_state = true;
  const bool is_long = random.Bernoulli(0.5);
  StretchLeases(is_long ? 4 : 2, life);
  life.move_time = is_long ? absl::Milliseconds(600) : absl::Milliseconds(300);
  life.state_folder.max_time =
      Between(random, absl::ZeroDuration(),
              random.Bernoulli(0.8) ? absl::Milliseconds(2) : absl::Milliseconds(15));
  if (random.Bernoulli(0.3)) life.state_folder.failures = 0.05;
  for (int64_t i = 1 + static_cast<int64_t>(random.UniformInt(4)); i > 0; --i) {
    life.coordinator_losses.push_back(DrawLoss(random, life));
  }
}

}  // namespace

Scenario DrawCoordinatorLossScenario(uint64_t seed) {
  Random random(seed, /*stream=*/17);
  const double kind = random.UniformFloat();
  Scenario scenario = kind < 0.4   ? DrawScenario(seed)
                      : kind < 0.6 ? DrawCopiedScenario(seed)
                                   : DrawFailOverScenario(seed);
  DrawLosses(random, scenario);
  for (Scenario& life : scenario.next_lives) DrawLosses(random, life);
  return scenario;
}

}  // namespace capstan
