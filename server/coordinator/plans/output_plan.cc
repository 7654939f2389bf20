#include "server/coordinator/plans/output_plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/job/job_properties.h"
#include "server/optimizer/state_tensors.h"

namespace capstan {
namespace {

// The shortest digits that give the same number again, as in a summary.
std::string DigitsOf(double value) { return nlohmann::json(value).dump(); }

// Of the evaluator's `result`.
ModelOutput::Metadata MetadataOf(const v1::JobSpec& job, int64_t step,
                                 const v1::ReportResultRequest& result) {
  ModelOutput::Metadata metadata = {
      {"format", "capstan"}, {"job", PrintableText(job.name())}, {"step", absl::StrCat(step)}};
  const bool learns = !LearnsNothing(job.model());
  if (learns && !result.has_no_accuracy()) {
    metadata["test_accuracy"] = DigitsOf(result.test_accuracy());
  }
  if (learns && !result.has_no_loss()) metadata["test_loss"] = DigitsOf(result.test_loss());
  if (result.has_test_auc()) metadata["test_auc"] = DigitsOf(result.test_auc());
  return metadata;
}

}  // namespace

OutputPlan::Work OutputPlan::BeginWork(const v1::JobSpec& job, const TableSpecs& tables) {
  return [job, tables](ModelOutput& file) -> absl::Status {
    ModelOutput::Tables state;
    if (job.output_optimizer_state()) {
      ASSIGN_OR_RETURN(state, StateTables(job, tables));
    }
    return file.Begin(tables, {}, state);
  };
}

void OutputPlan::Restore(const v1::CoordinatorState&, const JobFacts& facts) {
  is_asked_for_ = facts.is_placed();
  is_made_ = is_made_ || facts.is_placed();
}

bool OutputPlan::Settle(const JobFacts& facts, JobEvents&) {
  if (!is_wanted_) return false;
  if (facts.view.phase() == v1::REGISTERING && facts.members.is_complete() &&
      !std::exchange(is_asked_for_, true)) {
    work_ = BeginWork(facts.job, facts.tables.specs());
  }
  // After each change of the placement, the servers write their shards again.
  const uint64_t to_be_seen = std::max(facts.phase_version, facts.placement_version);
  if (facts.view.phase() == v1::SAVING && facts.members.ServersHaveSeen(to_be_seen) &&
      !std::exchange(is_name_asked_for_, true)) {
    const v1::ReportResultRequest& result = *facts.result;
    std::optional<uint64_t> hash;
    if (result.has_parameters_xxh3()) hash = result.parameters_xxh3();
    work_ = [metadata = MetadataOf(facts.job, facts.training.steps_total(), result),
             hash](ModelOutput& file) { return file.Publish(metadata, hash); };
  }
  return false;
}

}  // namespace capstan
