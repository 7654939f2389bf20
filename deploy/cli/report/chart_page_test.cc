#include "deploy/cli/report/chart_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Points = std::vector<std::pair<double, double>>;

// The JSON for the page's script.
nlohmann::json ContentOf(const std::string& page) {
  const std::string begin = "<script id=\"content\" type=\"application/json\">";
  const size_t from = page.find(begin) + begin.size();
  return nlohmann::json::parse(page.substr(from, page.find("</script>", from) - from));
}

TEST(ChartPageTest, HasItsContentAndItsScriptsInIt) {
  const std::string page = ChartPage({"night", "two workers", "", {{"accuracy", "98 %"}}, {}});
  const nlohmann::json content = ContentOf(page);
  EXPECT_EQ(content["title"], "night");
  EXPECT_EQ(content["facts"][0][1], "98 %");
  EXPECT_THAT(page, HasSubstr("!function(){"));  // d3
  EXPECT_THAT(page, HasSubstr("drawLines"));
  EXPECT_THAT(page, Not(HasSubstr(" src=")));
  EXPECT_THAT(page, Not(HasSubstr("<link")));
}

TEST(ChartPageTest, ANameCannotEndTheScript) {
  ChartPageContent content;
  content.title = "</script><b>\xff";
  const std::string page = ChartPage(content);
  EXPECT_THAT(page, Not(HasSubstr("</script><b>")));
  EXPECT_THAT(ContentOf(page)["title"].get<std::string>(), HasSubstr("</script><b>"));
}

TEST(ChartPageTest, PointsThatAreNoNumbersAreLeftOut) {
  ChartPageContent content;
  content.charts.resize(1);
  content.charts[0].series = {{"loss", {{1, 0.25}, {2, NAN}, {3, INFINITY}, {4, 1.0 / 3}}}};
  EXPECT_EQ(ContentOf(ChartPage(content))["charts"][0]["series"][0]["points"].dump(),
            "[[1.0,0.25],[4.0,0.333333]]");
}

TEST(ThinOutTest, KeepsTheFirstAndTheLastAndWhatIsEvenlyBetween) {
  Points points;
  for (int i = 0; i <= 100; ++i) points.emplace_back(i, -i);
  EXPECT_EQ(ThinOut(points, 5), (Points{{0, 0}, {25, -25}, {50, -50}, {75, -75}, {100, -100}}));
  EXPECT_EQ(ThinOut(points, 101), points);
}

}  // namespace
}  // namespace capstan
