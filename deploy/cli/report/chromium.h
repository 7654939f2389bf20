#ifndef DEPLOY_CLI_REPORT_CHROMIUM_H_
#define DEPLOY_CLI_REPORT_CHROMIUM_H_

#include <string>
#include <vector>

namespace capstan {

// A page as a browser shows it.
struct RenderedPage {
  std::string dom;         // as HTML, after its scripts have run, and without them
  std::string screenshot;  // path of a PNG file
};

// Renders the page in headless Chromium, without a network. If Chromium fails, the calling test
// fails.
RenderedPage RenderPage(const std::string& html);

// A series in a chart of a rendered page.
struct DrawnSeries {
  std::string chart;  // its id
  std::string name;
  int points = 0;  // of a line, or bars
};

// In order. A path or bar with "NaN" counts as no point: browsers draw nothing.
std::vector<DrawnSeries> FindSeries(const std::string& dom);

}  // namespace capstan

#endif  // DEPLOY_CLI_REPORT_CHROMIUM_H_
