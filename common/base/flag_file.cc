#include "common/base/flag_file.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/input_file.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxFiles = 64;
constexpr size_t kMaxFileBytes = 1 << 20;

// FILE in "--flagfile=FILE", "" for "--flagfile", nothing for any other argument.
std::optional<std::string> FlagFileIn(absl::string_view argument) {
  if (!absl::ConsumePrefix(&argument, "-")) return std::nullopt;
  absl::ConsumePrefix(&argument, "-");
  if (!absl::ConsumePrefix(&argument, "flagfile")) return std::nullopt;
  if (argument.empty()) return "";
  if (!absl::ConsumePrefix(&argument, "=")) return std::nullopt;
  return std::string(argument);
}

absl::StatusOr<std::string> ReadFlagFile(const std::string& path) {
  absl::StatusOr<std::string> text = absl::InvalidArgumentError("it needs a name");
  if (!path.empty()) text = ReadInputText(path, kMaxFileBytes);
  if (text.ok()) return text;
  return absl::InvalidArgumentError(
      absl::StrCat("--flagfile: expected a file of flags that can be read, got \"",
                   PrintableText(path), "\" (", text.status().message(), ")"));
}

// Reads files into one list of flags.
class FlagFiles {
 public:
  const std::vector<std::string>& flags() const { return flags_; }
  void Add(std::string flag) { flags_.push_back(std::move(flag)); }

  // Adds the flags in the file at `path`.
  absl::Status Read(const std::string& path) {
    RETURN_IF_ERROR(CheckMayRead(path));
    ASSIGN_OR_RETURN(const std::string text, ReadFlagFile(path));
    open_.push_back(path);
    int number = 0;
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      ++number;
      RETURN_IF_ERROR(Annotate(ReadLine(absl::StripAsciiWhitespace(line)),
                               absl::StrCat(PrintableText(path), ":", number)));
    }
    open_.pop_back();
    return absl::OkStatus();
  }

 private:
  absl::Status CheckMayRead(const std::string& path) {
    const auto is_same = [&path](const std::string& other) {
      std::error_code ignored;
      return fs::equivalent(path, other, ignored);
    };
    if (const auto first = std::find_if(open_.begin(), open_.end(), is_same);
        first != open_.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--flagfile: expected files that do not read each other in a circle, got ",
                       PrintableText(absl::StrJoin(first, open_.end(), " -> ")), " -> ",
                       PrintableText(path), "; remove this line"));
    }
    if (++num_files_ <= kMaxFiles) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("--flagfile: expected at most ", kMaxFiles,
                                                   " files of flags, got more; join some"));
  }

  absl::Status ReadLine(absl::string_view line) {
    if (line.empty() || line[0] == '#') return absl::OkStatus();
    if (!absl::StartsWith(line, "--") || line == "--") {
      return absl::InvalidArgumentError(
          absl::StrCat("expected --name=value, a comment that begins with #, or nothing; got \"",
                       ShortPrintableText(line), "\""));
    }
    if (const std::optional<std::string> file = FlagFileIn(line)) return Read(*file);
    Add(std::string(line));
    return absl::OkStatus();
  }

  std::vector<std::string> flags_;
  std::vector<std::string> open_;  // the files that are being read, the outermost first
  int num_files_ = 0;              // of all that were read
};

}  // namespace

absl::Status ExpandFlagFiles(std::vector<std::string>* args) {
  FlagFiles files;
  auto arg = args->begin();
  for (; arg != args->end() && *arg != "--"; ++arg) {
    std::optional<std::string> file = FlagFileIn(*arg);
    if (!file.has_value()) {
      files.Add(*arg);
      continue;
    }
    if (*arg == "--flagfile" || *arg == "-flagfile") {
      file = std::next(arg) == args->end() ? "" : *++arg;
    }
    RETURN_IF_ERROR(files.Read(*file));
  }
  std::vector<std::string> expanded = files.flags();
  expanded.insert(expanded.end(), arg, args->end());
  *args = std::move(expanded);
  return absl::OkStatus();
}

}  // namespace capstan
