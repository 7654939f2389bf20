#include "common/job/job_flags.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/flag_help.h"
#include "common/base/status_macros.h"
#include "common/job/field_text.h"
#include "common/job/job_flag_table.h"
#include "common/job/job_properties.h"
#include "common/job/load_job.h"
#include "common/job/validate_job.h"

namespace capstan {
namespace {

using ::google::protobuf::FieldDescriptor;

bool IsBool(const JobFlag& flag) {
  v1::JobSpec job;
  return FieldOf(flag, &job).descriptor->cpp_type() == FieldDescriptor::CPPTYPE_BOOL;
}

// A job flag among the arguments; without `value` unless there was a "=".
struct FlagArgument {
  const JobFlag* flag;
  std::optional<std::string> value;
};

std::optional<FlagArgument> ReadFlag(absl::string_view argument) {
  if (!absl::ConsumePrefix(&argument, "--")) return std::nullopt;
  const size_t equals = argument.find('=');
  const absl::string_view name = argument.substr(0, equals);
  if (const JobFlag* flag = FindJobFlag(name); flag != nullptr) {
    if (equals != argument.npos)
      return FlagArgument{flag, std::string(argument.substr(equals + 1))};
    if (IsBool(*flag)) return FlagArgument{flag, "true"};
    return FlagArgument{flag, std::nullopt};
  }
  if (!absl::ConsumePrefix(&argument, "no")) return std::nullopt;
  const JobFlag* flag = FindJobFlag(argument);
  if (flag == nullptr || !IsBool(*flag)) return std::nullopt;
  return FlagArgument{flag, "false"};
}

absl::Status SetFlag(const JobFlag& flag, absl::string_view value, v1::JobSpec* job) {
  const JobField field = FieldOf(flag, job);
  return Annotate(SetFieldText(field.message, *field.descriptor, value),
                  absl::StrCat("flag --", flag.name));
}

// Clears the file's fields in contradiction to the `given` flags.
void DropReplaced(const std::set<absl::string_view>& given, v1::JobSpec* job) {
  if (given.count("epochs") > 0 && given.count("steps") == 0) {
    job->mutable_training()->clear_steps();
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

std::string FlagUsage(const JobFlag& flag, const FieldDescriptor& field) {
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) return absl::StrCat("--[no]", flag.name);
  if (field.enum_type() == nullptr) return absl::StrCat("--", flag.name, "=", flag.value);
  return absl::StrCat("--", flag.name, "=", absl::StrJoin(EnumNames(*field.enum_type()), "|"));
}

// Whether the field is empty, or has its default 0 or false.
bool AsksForNothing(const JobField& field) {
  const std::string value = FieldText(*field.message, *field.descriptor);
  if (value.empty()) return true;
  const std::unique_ptr<google::protobuf::Message> defaults(field.message->New());
  return (value == "0" || value == "false") && value == FieldText(*defaults, *field.descriptor);
}

// INVALID_ARGUMENT when the job's choices leave the flag without effect.
absl::Status CheckMatters(const JobFlag& flag, v1::JobSpec* job) {
  if (flag.only_with.empty()) return absl::OkStatus();
  // The flag may unset a field of the file.
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

// INVALID_ARGUMENT when the flag is for workers that read data, and the job's are programs.
absl::Status CheckMattersToPrograms(const JobFlag& flag, const v1::JobSpec& job) {
  const bool is_for_data =
      flag.group == kDataFlags || flag.name == "batch_size" || flag.name == "epochs";
  if (job.model().type() != v1::ModelSpec::PROGRAM || !is_for_data) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--", flag.name, ": cannot matter, because the workers are programs of your own, which ",
      "choose their data, batches and steps; leave it out, and give it to your program"));
}

// INVALID_ARGUMENT when the flag is for data in memory, and the job's are a stream.
absl::Status CheckMattersToStreams(const JobFlag& flag, const v1::JobSpec& job) {
  constexpr absl::string_view kInMemory[] = {"test_fraction", "classes", "features", "label_column",
                                             "feature_scale"};
  const bool is_in_memory =
      std::find(std::begin(kInMemory), std::end(kInMemory), flag.name) != std::end(kInMemory);
  if (!LearnsFromStream(job.model()) || !is_in_memory) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--", flag.name, ": cannot matter, because the samples of this model are a stream, whose ",
      "labels are 0 and 1 and whose numbers are used as they are; leave it out",
      flag.name == "label_column"    ? ", --columns has it"
      : flag.name == "feature_scale" ? ", and scale the numbers beforehand"
                                     : ""));
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
       "there is no --test_path for these labels"},
      {"codec_min_bytes", job.codec().push() == "float32" && job.codec().pull() == "float32",
       "--push_codec and --pull_codec are float32"},
      {"reply_state_bytes", !HasTopkPull(job.codec()), "no codec of values is a topk"},
      {"table_codec", !HasCodec(job.codec()), "all tables are float32 without it, too"},
      {"keep", job.checkpoint().dir().empty(), "there is no --checkpoint_dir"},
  };
  for (const auto& rule : rules) {
    if (!rule.is_overruled || given.count(rule.flag) == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("--", rule.flag, ": cannot matter, because ",
                                                   rule.why, "; leave out --", rule.flag));
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
      return absl::InvalidArgumentError(
          absl::StrCat("flag --", argument->flag->name, ": expected a value; got none"));
    }
    RETURN_IF_ERROR(SetFlag(*argument->flag, *argument->value, job));
    taken.insert(argument->flag->name);
  }
  DropReplaced(taken, job);
  if (given != nullptr) given->insert(taken.begin(), taken.end());
  rest.insert(rest.end(), args->begin() + i, args->end());
  *args = std::move(rest);
  return absl::OkStatus();
}

std::string JobFlagsHelp() {
  std::vector<FlagHelp> flags;
  v1::JobSpec defaults;
  for (const JobFlag& flag : JobFlags()) {
    const JobField field = FieldOf(flag, &defaults);
    const std::string value = FieldText(*field.message, *field.descriptor);
    flags.push_back({flag.group, FlagUsage(flag, *field.descriptor),
                     absl::StrCat(flag.help, " Default: ", value.empty() ? "none" : value, ".")});
  }
  return FormatFlagHelp(flags);
}

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
    RETURN_IF_ERROR(CheckMattersToPrograms(*FindJobFlag(name), job));
    RETURN_IF_ERROR(CheckMattersToStreams(*FindJobFlag(name), job));
  }
  RETURN_IF_ERROR(CheckIsNotOverruled(given, job));
  return job;
}

}  // namespace capstan
