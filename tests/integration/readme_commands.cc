#include "tests/integration/readme_commands.h"

#include <regex>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace capstan {
namespace {

using Commands = std::vector<std::string>;

absl::string_view WithoutComment(absl::string_view line) {
  return absl::StripAsciiWhitespace(line.substr(0, line.find(" # ")));
}

// Adds `line` to the commands: as a new command, or as the rest of the previous one.
void AddLine(absl::string_view line, bool* goes_on, Commands* commands) {
  if (!*goes_on && (line.empty() || absl::StartsWith(line, " "))) return;
  absl::string_view text = WithoutComment(line);
  const bool was_going_on = *goes_on;
  *goes_on = absl::ConsumeSuffix(&text, "\\");
  text = absl::StripAsciiWhitespace(text);
  if (was_going_on) {
    absl::StrAppend(&commands->back(), " ", text);
  } else {
    commands->emplace_back(text);
  }
}

// The commands between backquotes in the line.
std::vector<Commands> InlineCommands(const std::string& line) {
  static const std::regex span("`([^`]+)`");
  static const std::regex command(
      "(\\S*/)?(train_local\\.sh|capstan run|capstan_(coordinator|server|worker)|straggler_study) "
      ".+");
  std::vector<Commands> found;
  for (std::sregex_iterator it(line.begin(), line.end(), span), end; it != end; ++it) {
    const std::string text = (*it)[1];
    if (std::regex_match(text, command)) found.push_back({text});
  }
  return found;
}

}  // namespace

std::vector<Commands> ReadmeCommands(absl::string_view markdown) {
  std::vector<Commands> all;
  bool is_fenced = false;
  bool has_language = false;
  bool goes_on = false;
  for (const absl::string_view line : absl::StrSplit(markdown, '\n')) {
    if (absl::StartsWith(absl::StripLeadingAsciiWhitespace(line), "```")) {
      is_fenced = !is_fenced;
      has_language = is_fenced && absl::StripAsciiWhitespace(line) != "```";
      goes_on = false;
      if (is_fenced) all.emplace_back();
    } else if (is_fenced) {
      if (!has_language) AddLine(line, &goes_on, &all.back());
    } else {
      for (Commands& commands : InlineCommands(std::string(line))) all.push_back(commands);
    }
  }
  return all;
}

}  // namespace capstan
