#ifndef DEPLOY_CLI_REPORT_CHART_PAGE_H_
#define DEPLOY_CLI_REPORT_CHART_PAGE_H_

#include <string>
#include <utility>
#include <vector>

namespace capstan {

struct ChartSeries {
  std::string name;
  // In order of x; of bars, x is the index of a category, each once and in order.
  std::vector<std::pair<double, double>> points;
  bool is_emphasized = false;  // drawn dark and thick
};

struct Chart {
  enum class Kind { kLines, kBars, kStackedBars };
  Kind kind = Kind::kLines;
  std::string id;  // of its element in the page
  std::string title;
  std::string note;     // below the title; may be empty
  std::string x_label;  // with its unit
  std::string y_label;
  bool is_log = false;                  // the y axis of lines; values of 0 and less are left out
  std::vector<std::string> categories;  // of bars: different names, from the left
  std::vector<ChartSeries> series;
};

struct ChartPageContent {
  std::string title;
  std::string subtitle;
  std::string warning;                                     // before all else; may be empty
  std::vector<std::pair<std::string, std::string>> facts;  // what it is, and its value
  std::vector<Chart> charts;
};

// One HTML page with these charts, as SVG, that needs nothing beside itself: scripts and style are
// in it. Points whose numbers are not finite are left out.
std::string ChartPage(const ChartPageContent& content);

// At most `count` (2 or more) of the points, the first and the last among them, evenly spread.
std::vector<std::pair<double, double>> ThinOut(const std::vector<std::pair<double, double>>& points,
                                               size_t count);

}  // namespace capstan

#endif  // DEPLOY_CLI_REPORT_CHART_PAGE_H_
