#include "deploy/cli/log_tail.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/printable_text.h"

namespace capstan {
namespace {

constexpr std::streamoff kTailBytes = 64 << 10;

std::string ReadTail(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return "";
  const std::streamoff size = in.tellg();
  in.seekg(std::max<std::streamoff>(0, size - kTailBytes));
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// glog writes "E20301121 02:13:34.123456  1234 file.cc:12] message", without the year before 0.6.
bool IsGlogLine(absl::string_view line) {
  const size_t date_end = line.find(' ');
  return (date_end == 5 || date_end == 9) && absl::StrContains("IWEF", line.substr(0, 1)) &&
         std::all_of(line.begin() + 1, line.begin() + date_end, absl::ascii_isdigit) &&
         absl::StrContains(line, "] ");
}

bool IsStackTrace(absl::string_view line) {
  return absl::StartsWith(line, "    @ ") || absl::StartsWith(line, "***");
}

bool SaysWhy(absl::string_view line) {
  if (IsStackTrace(line)) return false;
  return !IsGlogLine(line) || line[0] == 'E' || line[0] == 'F';
}

}  // namespace

std::string LastErrorLine(const std::string& log_path) {
  const std::string tail = ReadTail(log_path);
  const std::vector<absl::string_view> lines = absl::StrSplit(tail, '\n', absl::SkipWhitespace());
  const auto found = std::find_if(lines.rbegin(), lines.rend(), SaysWhy);
  if (found == lines.rend()) return "no error in its log";
  absl::string_view line = *found;
  if (IsGlogLine(line)) line.remove_prefix(line.find("] ") + 2);
  return PrintableText(absl::StripAsciiWhitespace(line));
}

}  // namespace capstan
