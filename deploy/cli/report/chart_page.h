#ifndef DEPLOY_CLI_REPORT_CHART_PAGE_H_
#define DEPLOY_CLI_REPORT_CHART_PAGE_H_

#include <string>
#include <utility>
#include <vector>

namespace capstan {

struct ChartSeries {
  std::string name;
  // In order of x. In bar charts x is the index of a category, and each category has one point.
  std::vector<std::pair<double, double>> points;
  bool is_emphasized = false;  // drawn dark and thick
};

struct Chart {
  enum class Kind { kLines, kBars, kStackedBars };
  Kind kind = Kind::kLines;
  std::string id;  // of its HTML element
  std::string title;
  std::string note;     // below the title; may be empty
  std::string x_label;  // with its unit
  std::string y_label;
  bool is_log = false;                  // logarithmic y axis, lines only; values <= 0 are left out
  std::vector<std::string> categories;  // bars only: distinct names, from the left
  std::vector<ChartSeries> series;
};

struct ChartPageContent {
  std::string title;
  std::string subtitle;
  std::string warning;                                     // before all else; may be empty
  std::vector<std::pair<std::string, std::string>> facts;  // name and value
  std::vector<Chart> charts;
};

// One HTML page with these charts as SVG. It contains its scripts and its style. Points with a
// number that is not finite are left out.
std::string ChartPage(const ChartPageContent& content);

// At most `count` (2 or more) of the points, evenly spread. The first and the last are kept.
std::vector<std::pair<double, double>> ThinOut(const std::vector<std::pair<double, double>>& points,
                                               size_t count);

}  // namespace capstan

#endif  // DEPLOY_CLI_REPORT_CHART_PAGE_H_
