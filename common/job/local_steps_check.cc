#include "common/job/local_steps_check.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

using Spec = v1::OptimizerSpec;

// What a dense table's optimizer keeps of the last update in the next one.
double MomentumOf(const Spec& spec) {
  switch (spec.type()) {
    case Spec::MOMENTUM:
    case Spec::NESTEROV:
      return spec.momentum();
    case Spec::RMSPROP:
      return spec.has_momentum() ? spec.momentum() : 0;
    case Spec::ADAM:
    case Spec::ADAMW:
    case Spec::LION:
      return spec.beta1();
    case Spec::SGD:
    case Spec::ADAGRAD:
    case Spec::ROW_ADAGRAD:
    case Spec::FTRL:
    case Spec::TYPE_UNSPECIFIED:
      break;
  }
  return 0;
}

absl::Status CheckFragments(const v1::LocalSteps& local_steps) {
  const uint32_t fragments = local_steps.fragments();
  if (fragments == 0 || fragments > kMostFragments) {
    return absl::InvalidArgumentError(
        absl::StrCat("fragments: expected 1 to ", kMostFragments, ", got ", fragments));
  }
  const int64_t steps = local_steps.sync_every();
  if (steps == 0) return absl::OkStatus();
  if (steps % fragments != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("fragments: expected a divisor of sync_every, which is ", steps, ", got ",
                     fragments, "; a fragment is pushed every sync_every / fragments steps"));
  }
  if (local_steps.fragment_sync_delay() < steps / fragments) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("fragment_sync_delay: expected less than sync_every / fragments, which is ",
                   steps / fragments, " steps, got ", local_steps.fragment_sync_delay(),
                   "; a fragment's values are taken in before the next one is pushed"));
}

}  // namespace

v1::LocalSteps RoundsOf(const v1::LocalStepsSpec& local_steps) {
  v1::LocalSteps rounds;
  rounds.set_sync_every(local_steps.sync_every());
  rounds.set_round_seconds(local_steps.round_seconds());
  rounds.set_fragments(local_steps.fragments());
  rounds.set_fragment_sync_delay(local_steps.fragment_sync_delay());
  return rounds;
}

std::string LocalStepsText(const v1::LocalSteps& local_steps) {
  return absl::StrCat(local_steps.sync_every() > 0
                          ? absl::StrCat("sync_every ", local_steps.sync_every())
                          : absl::StrCat("round_seconds ", local_steps.round_seconds()),
                      ", fragments ", local_steps.fragments(), ", fragment_sync_delay ",
                      local_steps.fragment_sync_delay());
}

absl::Status CheckLocalSteps(const v1::LocalSteps& local_steps, bool is_replaceable) {
  const int64_t steps = local_steps.sync_every();
  const double seconds = local_steps.round_seconds();
  if (steps < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "sync_every: expected 1 local step or more, or 0 with round_seconds, got ", steps));
  }
  if (!std::isfinite(seconds) || seconds < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "round_seconds: expected a time above 0, or 0 with sync_every, got ", seconds));
  }
  if ((steps > 0) == (seconds > 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected sync_every, for rounds of so many local steps, or round_seconds, for rounds of "
        "so much time, got ",
        steps > 0 ? "both" : "neither"));
  }
  RETURN_IF_ERROR(CheckFragments(local_steps));
  if (!is_replaceable) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "replaceable: expected no such worker with local steps, since no other process can do the "
      "local steps of a lost one again; leave it out");
}

absl::Status CheckTablesOfRounds(const v1::JobSpec& job, const TableSpecs& tables) {
  for (const v1::TableSpec& table : tables) {
    if (!table.has_sparse()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "table ", table.name(),
        " is sparse, and local steps train dense tables only, since a worker has not all rows; "
        "train it without local steps"));
  }
  return CheckMomentumOfRounds(job.consistency(), job.optimizer(), tables);
}

absl::Status CheckOuterMomentum(const v1::ConsistencySpec& consistency, const Spec& optimizer) {
  if (consistency.mode() == v1::ConsistencySpec::BSP) return absl::OkStatus();
  const double momentum = MomentumOf(optimizer);
  if (momentum <= kMostMomentumOfRounds) return absl::OkStatus();
  const bool has_beta = optimizer.type() != Spec::MOMENTUM && optimizer.type() != Spec::NESTEROV &&
                        optimizer.type() != Spec::RMSPROP;
  const absl::string_view name = has_beta ? "beta1" : "momentum";
  return absl::InvalidArgumentError(absl::StrCat(
      "with local steps and consistency ",
      absl::AsciiStrToLower(v1::ConsistencySpec::Mode_Name(consistency.mode())),
      ", the servers' optimizer has at most ", name, " ", kMostMomentumOfRounds, ", got ", momentum,
      ": the training would take too large steps (capstan help local-steps); use ", name, " ",
      kMostMomentumOfRounds, ", or consistency bsp"));
}

absl::Status CheckMomentumOfRounds(const v1::ConsistencySpec& consistency,
                                   const Spec& optimizer_of_job, const TableSpecs& tables) {
  for (const v1::TableSpec& table : tables) {
    if (table.has_sparse() || table.replies_mean()) continue;
    const Spec& optimizer = table.has_optimizer() ? table.optimizer() : optimizer_of_job;
    RETURN_IF_ERROR(
        Annotate(CheckOuterMomentum(consistency, optimizer), absl::StrCat("table ", table.name())));
  }
  return absl::OkStatus();
}

}  // namespace capstan
