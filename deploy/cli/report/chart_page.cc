#include "deploy/cli/report/chart_page.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "common/charts/chart_files.h"
#include "deploy/cli/report/embedded_files.h"

namespace capstan {
namespace {

using ::nlohmann::ordered_json;

const char* KindText(Chart::Kind kind) {
  switch (kind) {
    case Chart::Kind::kLines:
      return "lines";
    case Chart::Kind::kBars:
      return "bars";
    case Chart::Kind::kStackedBars:
      return "stacked_bars";
  }
  return "";
}

// To six digits: a chart shows no more, and pages stay small.
double Rounded(double value) {
  double rounded = value;
  return absl::SimpleAtod(absl::StrFormat("%.6g", value), &rounded) ? rounded : value;
}

ordered_json SeriesJson(const ChartSeries& series) {
  ordered_json json;
  json["name"] = series.name;
  json["is_emphasized"] = series.is_emphasized;
  json["points"] = ordered_json::array();
  for (const auto& [x, y] : series.points) {
    if (std::isfinite(x) && std::isfinite(y)) json["points"].push_back({Rounded(x), Rounded(y)});
  }
  return json;
}

ordered_json ChartJson(const Chart& chart) {
  ordered_json json;
  json["kind"] = KindText(chart.kind);
  json["id"] = chart.id;
  json["title"] = chart.title;
  json["note"] = chart.note;
  json["x_label"] = chart.x_label;
  json["y_label"] = chart.y_label;
  json["is_log"] = chart.is_log;
  json["categories"] = chart.categories;
  json["series"] = ordered_json::array();
  for (const ChartSeries& series : chart.series) json["series"].push_back(SeriesJson(series));
  return json;
}

std::string ContentJson(const ChartPageContent& content) {
  ordered_json json;
  json["title"] = content.title;
  json["subtitle"] = content.subtitle;
  json["warning"] = content.warning;
  json["facts"] = ordered_json::array();
  for (const auto& [what, value] : content.facts) json["facts"].push_back({what, value});
  json["charts"] = ordered_json::array();
  for (const Chart& chart : content.charts) json["charts"].push_back(ChartJson(chart));
  // A "<" in a job's name could end the script element.
  return absl::StrReplaceAll(
      json.dump(-1, ' ', /*ensure_ascii=*/true, ordered_json::error_handler_t::replace),
      {{"<", "\\u003c"}});
}

}  // namespace

std::string ChartPage(const ChartPageContent& content) {
  return absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title></title>\n"
      "<style>\n",
      kPageStyle, kChartsStyle,
      "</style>\n</head>\n<body>\n<h1></h1>\n<p id=\"subtitle\"></p>\n"
      "<p id=\"warning\"></p>\n"
      "<div class=\"facts\"></div>\n<div class=\"charts\"></div>\n"
      "<script id=\"content\" type=\"application/json\">",
      ContentJson(content), "</script>\n<script>\n", kD3Script, "</script>\n<script>\n",
      kChartsScript, kPageScript, "</script>\n</body>\n</html>\n");
}

std::vector<std::pair<double, double>> ThinOut(const std::vector<std::pair<double, double>>& points,
                                               size_t count) {
  if (points.size() <= count) return points;
  std::vector<std::pair<double, double>> kept;
  kept.reserve(count);
  for (size_t i = 0; i < count; ++i) kept.push_back(points[i * (points.size() - 1) / (count - 1)]);
  return kept;
}

}  // namespace capstan
