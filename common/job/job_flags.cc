#include "common/job/job_flags.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/nearest_name.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/job/field_text.h"
#include "common/job/job_properties.h"
#include "common/job/job_settings.h"
#include "common/job/load_job.h"
#include "common/job/validate_job.h"

namespace capstan {
namespace {

using ::google::protobuf::FieldDescriptor;

constexpr absl::string_view kFieldFlag = "field";

const JobSetting* FindFlag(absl::string_view name) {
  const JobSetting* setting = FindJobSetting(name);
  return setting != nullptr && setting->flag == name ? setting : nullptr;
}

bool IsBool(const JobSetting& setting) {
  return setting.descriptor->cpp_type() == FieldDescriptor::CPPTYPE_BOOL;
}

// A job flag among the arguments; without `value` unless there was a "=".
struct FlagArgument {
  const JobSetting* setting;  // null: --field
  std::optional<std::string> value;
};

std::optional<FlagArgument> ReadFlag(absl::string_view argument) {
  if (!absl::ConsumePrefix(&argument, "--")) return std::nullopt;
  const size_t equals = argument.find('=');
  const absl::string_view name = argument.substr(0, equals);
  if (const JobSetting* setting = FindFlag(name); setting != nullptr || name == kFieldFlag) {
    if (equals != argument.npos) {
      return FlagArgument{setting, std::string(argument.substr(equals + 1))};
    }
    if (setting != nullptr && IsBool(*setting)) return FlagArgument{setting, "true"};
    return FlagArgument{setting, std::nullopt};
  }
  if (!absl::ConsumePrefix(&argument, "no")) return std::nullopt;
  const JobSetting* setting = FindFlag(argument);
  if (setting == nullptr || !IsBool(*setting)) return std::nullopt;
  return FlagArgument{setting, "false"};
}

// Splits "path=value", the value of --field.
absl::StatusOr<FlagArgument> SplitField(absl::string_view text) {
  const size_t equals = text.find('=');
  if (equals == text.npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("flag --field: expected FIELD=VALUE, such as limits.message_bytes=32M; got \"",
                     ShortPrintableText(text), "\""));
  }
  const absl::string_view path = text.substr(0, equals);
  for (const JobSetting& setting : JobSettings()) {
    if (setting.path == path) return FlagArgument{&setting, std::string(text.substr(equals + 1))};
  }
  std::vector<std::string> paths;
  for (const JobSetting& setting : JobSettings()) paths.push_back(setting.path);
  const JobSetting* of_flag = FindFlag(path);
  return absl::InvalidArgumentError(absl::StrCat(
      "flag --field: expected a field of a job, got \"", ShortPrintableText(path), "\"",
      of_flag != nullptr ? absl::StrCat(" (did you mean ", of_flag->path, "?)")
                         : DidYouMean(path, paths),
      "; capstan help fields lists those without a flag"));
}

// Clears the file's fields in contradiction to the `given` flags.
void DropReplaced(const std::set<absl::string_view>& given, v1::JobSpec* job) {
  if (given.count("epochs") > 0 && given.count("steps") == 0) {
    job->mutable_training()->clear_steps();
  }
  const v1::LocalStepsSpec& rounds = job->training().local_steps();
  if (given.count("round_seconds") > 0 && given.count("local_steps") == 0 &&
      rounds.round_seconds() > 0) {
    job->mutable_training()->mutable_local_steps()->clear_sync_every();
  }
  if (given.count("local_steps") > 0 && given.count("round_seconds") == 0 &&
      rounds.sync_every() > 0) {
    job->mutable_training()->mutable_local_steps()->clear_round_seconds();
  }
  if (given.count("consistency") > 0 && given.count("staleness") == 0 &&
      job->consistency().mode() != v1::ConsistencySpec::SSP) {
    job->mutable_consistency()->clear_staleness();
  }
  if (given.count("consistency") > 0 && given.count("table_staleness") == 0 &&
      job->consistency().mode() != v1::ConsistencySpec::SSP) {
    job->mutable_consistency()->clear_table_staleness();
  }
}

// Whether the field is empty, or has its default 0 or false.
bool AsksForNothing(const JobSetting& setting, v1::JobSpec* job) {
  const std::string value = SettingText(setting, job);
  if (value.empty()) return true;
  v1::JobSpec defaults;
  return (value == "0" || value == "false") && value == SettingText(setting, &defaults);
}

// INVALID_ARGUMENT when the job's choices leave the setting without effect.
absl::Status CheckMatters(const JobSetting& setting, v1::JobSpec* job) {
  if (setting.only_with.empty()) return absl::OkStatus();
  // The flag may unset a field of the file.
  if (AsksForNothing(setting, job)) return absl::OkStatus();
  const std::pair<std::string, std::string> needs =
      absl::StrSplit(setting.only_with, absl::MaxSplits('=', 1));
  const std::vector<std::string> values = absl::StrSplit(needs.second, ',');
  const std::string choice = SettingText(*FindFlag(needs.first), job);
  if (std::find(values.begin(), values.end(), choice) != values.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      setting.OnCommandLine(), ": matters with --", needs.first, "=", absl::StrJoin(values, " or "),
      " only, and the job has ", choice, "; leave it out, or choose that"));
}

// INVALID_ARGUMENT when the flag is for workers that read data, and the job's are programs.
absl::Status CheckMattersToPrograms(const JobSetting& setting, const v1::JobSpec& job) {
  const bool is_for_data = absl::StartsWith(setting.path, "data.") ||
                           setting.flag == "batch_size" || setting.flag == "epochs";
  if (job.model().type() != v1::ModelSpec::PROGRAM || !is_for_data) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      setting.OnCommandLine(),
      ": cannot matter, because the workers are programs of your own, which ",
      "choose their data, batches and steps; leave it out, and give it to your program"));
}

// INVALID_ARGUMENT when the flag is for data in memory, and the job's are a stream.
absl::Status CheckMattersToStreams(const JobSetting& setting, const v1::JobSpec& job) {
  constexpr absl::string_view kInMemory[] = {"test_fraction", "classes", "features", "label_column",
                                             "feature_scale"};
  const bool is_in_memory =
      std::find(std::begin(kInMemory), std::end(kInMemory), setting.flag) != std::end(kInMemory);
  if (!LearnsFromStream(job.model()) || !is_in_memory) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--", setting.flag, ": cannot matter, because the samples of this model are a stream, whose ",
      "labels are 0 and 1 and whose numbers are used as they are; leave it out",
      setting.flag == "label_column"    ? ", --columns has it"
      : setting.flag == "feature_scale" ? ", and scale the numbers beforehand"
                                        : ""));
}

// INVALID_ARGUMENT when another flag or field leaves a given one without effect.
absl::Status CheckIsNotOverruled(const std::set<absl::string_view>& given, const v1::JobSpec& job) {
  constexpr absl::string_view kNoLocalSteps = "there are no --local_steps and no --round_seconds";
  const bool has_test_file = !job.data().test_path().empty();
  const struct {
    absl::string_view setting;  // its key
    bool is_overruled;
    absl::string_view why;
  } rules[] = {
      {"epochs", given.count("steps") > 0 && job.training().steps() > 0, "--steps is given, too"},
      {"test_fraction", has_test_file, "--test_path names the samples to test with"},
      {"test_labels_path", !has_test_file && !job.data().test_labels_path().empty(),
       "there is no --test_path for these labels"},
      {"codec.min_bytes", job.codec().push() == "float32" && job.codec().pull() == "float32",
       "--push_codec and --pull_codec are float32"},
      {"codec.reply_state_bytes", !HasTopkPull(job.codec()), "no codec of values is a topk"},
      {"table_codec", !HasCodec(job.codec()), "all tables are float32 without it, too"},
      {"local_optimizer", !HasLocalSteps(job), kNoLocalSteps},
      {"local_learning_rate", !HasLocalSteps(job), kNoLocalSteps},
      {"fragments", !HasLocalSteps(job), kNoLocalSteps},
      {"fragment_sync_delay", !HasLocalSteps(job), kNoLocalSteps},
      {"keep", job.checkpoint().dir().empty(), "there is no --checkpoint_dir"},
  };
  for (const auto& rule : rules) {
    if (!rule.is_overruled || given.count(rule.setting) == 0) continue;
    const std::string name = FindJobSetting(rule.setting)->OnCommandLine();
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": cannot matter, because ", rule.why, "; leave out ", name));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ApplyJobFlags(std::vector<std::string>* args, v1::JobSpec* job,
                           std::set<absl::string_view>* given) {
  std::vector<std::string> rest;
  std::set<absl::string_view> taken;
  size_t i = 0;
  for (; i < args->size() && (*args)[i] != "--"; ++i) {
    std::optional<FlagArgument> argument = ReadFlag((*args)[i]);
    if (!argument.has_value()) {
      rest.push_back((*args)[i]);
      continue;
    }
    if (!argument->value.has_value() && i + 1 < args->size()) argument->value = (*args)[++i];
    if (!argument->value.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "flag ", argument->setting == nullptr ? "--field" : argument->setting->OnCommandLine(),
          ": expected a value; got none"));
    }
    const bool is_field = argument->setting == nullptr;
    if (is_field) {
      ASSIGN_OR_RETURN(*argument, SplitField(*argument->value));
    }
    const JobSetting& setting = *argument->setting;
    RETURN_IF_ERROR(
        Annotate(SetFieldText(MessageOf(setting, job), *setting.descriptor, *argument->value),
                 is_field ? absl::StrCat("flag --field=", setting.path)
                          : absl::StrCat("flag --", setting.flag)));
    taken.insert(setting.key());
  }
  DropReplaced(taken, job);
  if (given != nullptr) given->insert(taken.begin(), taken.end());
  rest.insert(rest.end(), args->begin() + i, args->end());
  *args = std::move(rest);
  return absl::OkStatus();
}

std::vector<std::string> JobFlagNames() {
  std::vector<std::string> names = {std::string(kFieldFlag)};
  for (const JobSetting& setting : JobSettings()) {
    if (!setting.flag.empty()) names.push_back(setting.flag);
  }
  return names;
}

std::vector<std::string> JobFlagSpellings() {
  std::vector<std::string> spellings = JobFlagNames();
  for (const JobSetting& setting : JobSettings()) {
    if (setting.flag.empty()) spellings.push_back(absl::StrCat(kFieldFlag, "=", setting.path));
  }
  return spellings;
}

absl::StatusOr<v1::JobSpec> EffectiveJob(const std::string& file, std::vector<std::string> args) {
  v1::JobSpec job;
  if (!file.empty()) {
    ASSIGN_OR_RETURN(job, LoadJobFile(file));
  }
  std::set<absl::string_view> given;
  RETURN_IF_ERROR(ApplyJobFlags(&args, &job, &given));
  FillOuterOptimizer(&job);
  RETURN_IF_ERROR(ValidateJob(job));
  v1::JobSpec looked_at = job;
  for (const absl::string_view key : given) {
    const JobSetting& setting = *FindJobSetting(key);
    RETURN_IF_ERROR(CheckMatters(setting, &looked_at));
    RETURN_IF_ERROR(CheckMattersToPrograms(setting, job));
    RETURN_IF_ERROR(CheckMattersToStreams(setting, job));
  }
  RETURN_IF_ERROR(CheckIsNotOverruled(given, job));
  return job;
}

}  // namespace capstan
