#include "deploy/cli/report/chromium.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "deploy/launch/child_process.h"

namespace capstan {
namespace {

constexpr char kProgram[] = "/usr/bin/chromium";

// How often `part` is in `text`.
int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// The value of an attribute in the tag of an element; empty: it has none.
std::string Attribute(const std::string& tag, const std::string& name) {
  std::smatch match;
  return std::regex_search(tag, match, std::regex(" " + name + "=\"([^\"]*)\"")) ? match[1].str()
                                                                                 : "";
}

std::string WithoutScripts(std::string html) {
  const std::string end = "</script>";
  for (size_t from = 0; (from = html.find("<script", from)) != std::string::npos;) {
    const size_t to = html.find(end, from);
    html.erase(from, to == std::string::npos ? to : to + end.size() - from);
  }
  return html;
}

}  // namespace

RenderedPage RenderPage(const std::string& html) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) /
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "page.html") << html;
  RenderedPage page;
  page.screenshot = folder / "page.png";
  const std::string log = folder / "log";
  auto child = ChildProcess::Start(
      {kProgram,
       {"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--proxy-server=127.0.0.1:1", "--user-data-dir=" + (folder / "profile").string(),
        "--window-size=1240,1500", "--screenshot=" + page.screenshot, "--dump-dom",
        "file://" + (folder / "page.html").string()},
       log});
  if (!child.ok()) {
    ADD_FAILURE() << child.status() << "; deploy/setup.sh installs it";
    return page;
  }
  siginfo_t info;
  EXPECT_EQ(waitid(P_PID, (*child)->pid(), &info, WEXITED | WNOWAIT), 0);
  std::ostringstream output;
  output << std::ifstream(log).rdbuf();
  page.dom = WithoutScripts(output.str());
  EXPECT_TRUE((*child)->Poll()->ok()) << page.dom;
  return page;
}

std::vector<DrawnSeries> FindSeries(const std::string& dom) {
  std::vector<DrawnSeries> series;
  // From each element of a chart or of a series to the next one.
  const std::regex begins(
      "<(div class=\"chart\"|path class=\"line series|g class=\"series\")[^>]*>");
  std::string chart;
  const std::sregex_iterator end;
  for (std::sregex_iterator found(dom.begin(), dom.end(), begins); found != end; ++found) {
    const std::string tag = found->str();
    if (tag.compare(0, 4, "<div") == 0) {
      chart = Attribute(tag, "id");
      continue;
    }
    DrawnSeries drawn = {chart, Attribute(tag, "data-series"), 0};
    if (tag.compare(0, 5, "<path") == 0) {
      const std::string path = Attribute(tag, "d");
      if (Count(path, "NaN") == 0) drawn.points = Count(path, "M") + Count(path, "L");
    } else {
      const size_t begin = found->position() + tag.size();
      const std::string bars = dom.substr(begin, dom.find("</g>", begin) - begin);
      if (Count(bars, "NaN") == 0) drawn.points = Count(bars, "<rect");
    }
    series.push_back(drawn);
  }
  return series;
}

}  // namespace capstan
