#include "deploy/cli/help_topics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/job/job_flags.h"
#include "deploy/cli/cli_help.h"
#include "deploy/cli/command_flags.h"
#include "deploy/cli/command_line.h"

namespace capstan {
namespace {

using Args = std::vector<std::string>;

// The commands of `capstan` among the examples of a topic, each with its arguments. A comment
// follows three blanks.
std::vector<Args> ExamplesIn(const HelpTopic& topic) {
  std::vector<Args> examples;
  for (absl::string_view line : absl::StrSplit(topic.text, '\n')) {
    if (!absl::ConsumePrefix(&line, "  capstan ")) continue;
    const absl::string_view commands = line.substr(0, line.find("   "));
    for (absl::string_view command : absl::StrSplit(commands, " && ")) {
      absl::ConsumePrefix(&command, "capstan ");
      examples.push_back(absl::StrSplit(command, ' '));
    }
  }
  return examples;
}

absl::Span<const CommandFlag> FlagsOf(const std::string& command) {
  const std::map<std::string, absl::Span<const CommandFlag>> flags = {
      {"run", RunFlags()},           {"address", AddressFlags()}, {"status", StatusFlags()},
      {"set", SetFlags()},           {"check", CheckFlags()},     {"checkpoint", CheckpointFlags()},
      {"evaluate", EvaluateFlags()}, {"export", ExportFlags()},   {"get", GetFlags()},
      {"job", JobCommandFlags()},    {"keys", KeysFlags()},       {"report", ReportFlags()},
      {"top", TopFlags()},           {"trace", TraceFlags()}};
  const auto found = flags.find(command);
  EXPECT_NE(found, flags.end()) << command;
  return found == flags.end() ? absl::Span<const CommandFlag>() : found->second;
}

// The error of an example's command line.
absl::Status Parse(Args args) {
  const std::string command = args[0];
  args.erase(args.begin());
  const bool takes_path = !args.empty() && !absl::StartsWith(args[0], "--");
  if (takes_path) args.erase(args.begin());
  // The file of the topic flagfile.
  const auto file = std::find(args.begin(), args.end(), "--flagfile=ssp.flags");
  if (file != args.end()) {
    *file = "--consistency=ssp";
    args.insert(args.begin(), "--staleness=3");
  }
  absl::Status parsed;
  if (command == "run") {
    parsed = EffectiveJob("", args).status();
    v1::JobSpec unused;
    parsed.Update(ApplyJobFlags(&args, &unused));
  }
  parsed.Update(ParseCommandFlags(args, FlagsOf(command)).status());
  return parsed;
}

TEST(HelpTopicsTest, EachTopicIsAScreenWithAnExample) {
  std::set<absl::string_view> names;
  for (const HelpTopic& topic : HelpTopics()) {
    EXPECT_TRUE(names.insert(topic.name).second) << topic.name;
    EXPECT_FALSE(topic.summary.empty()) << topic.name;
    const auto lines = std::count(topic.text.begin(), topic.text.end(), '\n');
    EXPECT_GE(lines, 10) << topic.name;
    EXPECT_LE(lines, 30) << topic.name;
    EXPECT_TRUE(absl::StrContains(topic.text, "\n  ")) << topic.name;
    EXPECT_TRUE(absl::EndsWith(topic.text, "\n")) << topic.name;
    for (absl::string_view line : absl::StrSplit(topic.text, '\n')) {
      EXPECT_LE(line.size(), 100u) << line;
    }
  }
}

TEST(HelpTopicsTest, ExamplesAreCommandLinesThatAreUnderstood) {
  int count = 0;
  for (const HelpTopic& topic : HelpTopics()) {
    for (const Args& example : ExamplesIn(topic)) {
      const absl::Status parsed = Parse(example);
      EXPECT_TRUE(parsed.ok()) << topic.name << ": " << parsed;
      ++count;
    }
  }
  EXPECT_GE(count, 25);
}

}  // namespace
}  // namespace capstan
