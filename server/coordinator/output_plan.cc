#include "server/coordinator/output_plan.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/printable_text.h"

namespace capstan {
namespace {

// The shortest digits that give the same number again, as in a summary.
std::string DigitsOf(double value) { return nlohmann::json(value).dump(); }

}  // namespace

bool OutputPlan::Make(const ModelOutput::Tables& tables) {
  if (!is_wanted_) return true;
  if (!std::exchange(is_asked_for_, true)) {
    work_ = [tables](ModelOutput& file) { return file.Begin(tables, {}); };
  }
  return is_made_;
}

void OutputPlan::Publish(const v1::JobSpec& job, int64_t step,
                         const v1::ReportResultRequest& result) {
  ModelOutput::Metadata metadata = {
      {"format", "capstan"},
      {"job", PrintableText(job.name())},
      {"step", absl::StrCat(step)},
      {"parameters_xxh3", absl::StrFormat("%016x", result.parameters_xxh3())}};
  const bool learns = job.model().type() != v1::ModelSpec::REPLAY;
  if (learns && !result.has_no_accuracy()) {
    metadata["test_accuracy"] = DigitsOf(result.test_accuracy());
  }
  if (learns && !result.has_no_loss()) metadata["test_loss"] = DigitsOf(result.test_loss());
  if (result.has_test_auc()) metadata["test_auc"] = DigitsOf(result.test_auc());
  work_ = [metadata, hash = result.parameters_xxh3()](ModelOutput& file) {
    return file.Publish(metadata, hash);
  };
}

}  // namespace capstan
