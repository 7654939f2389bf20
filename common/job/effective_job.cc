#include "common/job/effective_job.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/job/field_text.h"
#include "common/job/job_flag_table.h"
#include "common/job/job_flags.h"
#include "common/job/load_job.h"
#include "common/job/validate_job.h"

namespace capstan {
namespace {

// Whether the field has its default, and this is nothing: empty, 0 or false.
bool AsksForNothing(const JobField& field) {
  const std::string value = FieldText(*field.message, *field.descriptor);
  if (value.empty()) return true;
  const std::unique_ptr<google::protobuf::Message> defaults(field.message->New());
  return (value == "0" || value == "false") && value == FieldText(*defaults, *field.descriptor);
}

// INVALID_ARGUMENT when the job has chosen otherwise than the flag needs.
absl::Status CheckMatters(const JobFlag& flag, v1::JobSpec* job) {
  if (flag.only_with.empty()) return absl::OkStatus();
  // It may take back what the file says.
  if (AsksForNothing(FieldOf(flag, job))) return absl::OkStatus();
  const std::pair<std::string, std::string> needs =
      absl::StrSplit(flag.only_with, absl::MaxSplits('=', 1));
  const std::vector<std::string> values = absl::StrSplit(needs.second, ',');
  const JobField chosen = FieldOf(*FindJobFlag(needs.first), job);
  const std::string choice = FieldText(*chosen.message, *chosen.descriptor);
  if (std::find(values.begin(), values.end(), choice) != values.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--", flag.name, ": matters with --", needs.first, "=", absl::StrJoin(values, " or "),
      " only, and the job has ", choice, "; leave it out, or choose that"));
}

// INVALID_ARGUMENT when another flag or field leaves a given flag without effect.
absl::Status CheckIsNotOverruled(const std::set<absl::string_view>& given, const v1::JobSpec& job) {
  const bool has_test_file = !job.data().test_path().empty();
  const struct {
    absl::string_view flag;
    bool is_overruled;
    absl::string_view why;
  } rules[] = {
      {"epochs", given.count("steps") > 0 && job.training().steps() > 0, "--steps is given, too"},
      {"test_fraction", has_test_file, "--test_path names the samples to test with"},
      {"test_labels_path", !has_test_file && !job.data().test_labels_path().empty(),
       "there is no --test_path whose labels it could have"},
  };
  for (const auto& rule : rules) {
    if (!rule.is_overruled || given.count(rule.flag) == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("--", rule.flag, ": cannot matter, because ",
                                                   rule.why, "; leave out --", rule.flag));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::JobSpec> EffectiveJob(const std::string& file, std::vector<std::string> args) {
  v1::JobSpec job;
  if (!file.empty()) {
    ASSIGN_OR_RETURN(job, LoadJobFile(file));
  }
  std::set<absl::string_view> given;
  RETURN_IF_ERROR(ApplyJobFlags(&args, &job, &given));
  RETURN_IF_ERROR(ValidateJob(job));
  v1::JobSpec looked_at = job;
  for (const absl::string_view name : given) {
    RETURN_IF_ERROR(CheckMatters(*FindJobFlag(name), &looked_at));
  }
  RETURN_IF_ERROR(CheckIsNotOverruled(given, job));
  return job;
}

}  // namespace capstan
