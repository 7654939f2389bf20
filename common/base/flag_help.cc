#include "common/base/flag_help.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace capstan {
namespace {

constexpr size_t kColumns = 100;
constexpr char kMargin[] = "      ";
constexpr char kGeneral[] = "General";

// `text` in lines with a margin.
std::string Wrap(absl::string_view text) {
  std::string wrapped, line;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (!line.empty() && line.size() + 1 + word.size() > kColumns) {
      absl::StrAppend(&wrapped, line, "\n");
      line.clear();
    }
    absl::StrAppend(&line, line.empty() ? kMargin : " ", word);
  }
  return absl::StrCat(wrapped, line, "\n");
}

FlagHelp HelpOf(const ProgramFlag& flag) {
  const absl::CommandLineFlag* const found = absl::FindCommandLineFlag(flag.name);
  CHECK(found != nullptr) << "no flag --" << flag.name;
  std::string text = found->Help();
  if (!absl::EndsWith(text, "Required.")) {
    const std::string standard = found->DefaultValue();
    absl::StrAppend(&text, " Default: ", standard.empty() ? "none" : standard, ".");
  }
  return {std::string(flag.group),
          absl::StrCat("--", flag.name, flag.value.empty() ? "" : "=", flag.value),
          std::move(text)};
}

}  // namespace

std::string FormatFlagHelp(absl::Span<const FlagHelp> flags) {
  std::string help;
  absl::string_view group;
  for (const FlagHelp& flag : flags) {
    if (flag.group != group) absl::StrAppend(&help, help.empty() ? "" : "\n", flag.group, ":\n");
    group = flag.group;
    absl::StrAppend(&help, "  ", flag.usage, "\n", Wrap(flag.text));
  }
  return help;
}

std::vector<FlagHelp> GeneralFlagHelp(const std::string& group) {
  return {{group, "--flagfile=FILE",
           "Read more flags from this file, one --name=value a line, as if they stood here. If a "
           "flag is given twice, the last one wins. See capstan help flagfile. Default: none."},
          {group, "--help", "Print this."}};
}

std::string ProgramFlagsHelp(absl::Span<const ProgramFlag> flags) {
  std::vector<FlagHelp> all;
  for (const ProgramFlag& flag : flags) all.push_back(HelpOf(flag));
  for (FlagHelp& flag : GeneralFlagHelp(kGeneral)) all.push_back(std::move(flag));
  all.push_back({kGeneral, "--version", "Print the program's name and version."});
  return FormatFlagHelp(all);
}

bool AsksForHelp(absl::Span<const std::string> args) {
  return std::any_of(args.begin(), args.end(),
                     [](const std::string& arg) { return arg == "--help" || arg == "-h"; });
}

}  // namespace capstan
