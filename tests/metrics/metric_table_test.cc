// The table of metrics in deploy/guide/metrics.md is that of the code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/metrics/metric_list.h"

namespace capstan {
namespace {

constexpr char kGuide[] = "deploy/guide/metrics.md";
constexpr char kBegin[] = "| metric | type | served by | meaning |\n";

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The text with the table of the code in place of its own. Empty: it has none.
std::string WithTable(const std::string& text) {
  const size_t begin = text.find(kBegin);
  if (begin == std::string::npos) return "";
  const size_t end = text.find("\n\n", begin);
  return absl::StrCat(text.substr(0, begin), MetricTable(), text.substr(end + 1));
}

TEST(MetricTableTest, TheGuideHasTheTableOfTheCode) {
  // Set by `bazel run` alone.
  if (const char* const root = getenv("BUILD_WORKSPACE_DIRECTORY"); root != nullptr) {
    const std::string path = absl::StrCat(root, "/", kGuide);
    const std::string text = WithTable(ReadFile(path));
    ASSERT_NE(text, "") << path << ": expected the line " << kBegin;
    std::ofstream(path, std::ios::trunc) << text;
  } else {
    const std::string text = ReadFile(kGuide);
    EXPECT_EQ(text, WithTable(text))
        << "the table of metrics in " << kGuide << " is not that of common/metrics/metric_list.cc;"
        << " write it with: bazel run //tests/metrics:metric_table_test";
  }
}

}  // namespace
}  // namespace capstan
