#include "deploy/cli/command_line.h"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/flag_help.h"
#include "common/base/nearest_name.h"
#include "common/base/printable_text.h"
#include "common/job/job_flags.h"
#include "deploy/launch/run_folder.h"

namespace capstan {
namespace {

std::string Names(absl::Span<const CommandFlag> flags) {
  return absl::StrJoin(flags, ", ", [](std::string* out, const CommandFlag& flag) {
    absl::StrAppend(out, "--", flag.name);
  });
}

// What an unknown flag may have been meant as.
std::vector<std::string> NearNames(absl::Span<const CommandFlag> flags, bool takes_job_flags) {
  std::vector<std::string> names;
  for (const CommandFlag& flag : flags) names.emplace_back(flag.name);
  if (!takes_job_flags) return names;
  const std::vector<std::string> of_job = JobFlagSpellings();
  names.insert(names.end(), of_job.begin(), of_job.end());
  return names;
}

// Null when there is none.
const CommandFlag* Find(absl::string_view name, absl::Span<const CommandFlag> flags) {
  const auto found = std::find_if(flags.begin(), flags.end(),
                                  [name](const CommandFlag& flag) { return flag.name == name; });
  return found == flags.end() ? nullptr : &*found;
}

}  // namespace

int Fail(absl::string_view command, const absl::Status& status, int exit_code) {
  std::cerr << command << ": " << PrintableLines(status.message()) << std::endl;
  return exit_code;
}

absl::StatusOr<std::string> TakeArgument(absl::string_view what, std::vector<std::string>& args) {
  const std::string argument = args.empty() ? "" : args[0];
  if (argument.empty() || argument[0] == '-') {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected ", what, ", got ", args.empty() ? "none" : absl::StrCat("\"", argument, "\"")));
  }
  args.erase(args.begin());
  return argument;
}

absl::Status NameCoordinator(std::vector<std::string>& args) {
  if (args.empty() || args[0].empty() || args[0][0] == '-') return absl::OkStatus();
  const std::string path = absl::StrCat(args[0], "/", kPortFile);
  std::ifstream file(path);
  std::string address;
  if (!std::getline(file, address) || address.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected a run folder, in which a job has written ", kPortFile, ", got \"", args[0],
        "\"; name the folder that capstan run prints, or give "
        "--coordinator=HOST:PORT"));
  }
  for (const std::string& arg : args) {
    if (absl::StartsWith(arg, "--coordinator")) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected a run folder or --coordinator, got both: \"", args[0], "\" and ",
                       arg, "; leave out one of them"));
    }
  }
  args[0] = absl::StrCat("--coordinator=", address);
  return absl::OkStatus();
}

absl::StatusOr<std::map<std::string, std::string>> ParseCommandFlags(
    const std::vector<std::string>& args, absl::Span<const CommandFlag> flags,
    bool takes_job_flags) {
  std::map<std::string, std::string> values;
  for (size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    const size_t equals = arg.find('=');
    const std::string name = absl::StartsWith(arg, "--") ? arg.substr(2, equals - 2) : "";
    const CommandFlag* const flag = Find(name, flags);
    if (flag == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown ", name.empty() ? "argument" : "flag", " \"", arg, "\"",
                       DidYouMean(name, NearNames(flags, takes_job_flags), "--"),
                       "; expected one of ", Names(flags), ", or a flag that --help lists"));
    }
    if (equals != arg.npos) {
      values[name] = arg.substr(equals + 1);
    } else if (flag->value.empty()) {
      values[name] = "true";
    } else if (i + 1 < args.size()) {
      values[name] = args[++i];
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("flag --", name, ": expected a value; got none"));
    }
    if (flag->value.empty() && values[name] != "true" && values[name] != "false") {
      return absl::InvalidArgumentError(
          absl::StrCat("flag --", name, ": expected true or false, got ", values[name]));
    }
  }
  return values;
}

std::string CommandFlagsHelp(absl::Span<const CommandFlag> flags) {
  std::vector<FlagHelp> all;
  for (const CommandFlag& flag : flags) {
    all.push_back({std::string(flag.group),
                   absl::StrCat("--", flag.name, flag.value.empty() ? "" : "=", flag.value),
                   std::string(flag.help)});
  }
  const bool has_headings = !all.empty() && !all.back().group.empty();
  for (FlagHelp& flag : GeneralFlagHelp(has_headings ? "General" : "")) {
    all.push_back(std::move(flag));
  }
  return FormatFlagHelp(all);
}

}  // namespace capstan
