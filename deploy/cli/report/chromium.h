#ifndef DEPLOY_CLI_REPORT_CHROMIUM_H_
#define DEPLOY_CLI_REPORT_CHROMIUM_H_

#include <string>
#include <vector>

namespace capstan {

// What a browser makes of a page.
struct RenderedPage {
  std::string dom;         // as HTML, after its scripts have run, and without them
  std::string screenshot;  // path of a PNG file
};

// Shows the page in headless Chromium, without a network. A failure of Chromium is a failure of the
// test that calls this.
RenderedPage RenderPage(const std::string& html);

// A series that a chart of a rendered page has drawn.
struct DrawnSeries {
  std::string chart;  // its id
  std::string name;
  int points = 0;  // of a line, or bars
};

// In order. Of text that is drawn as nothing ("NaN") no point is counted.
std::vector<DrawnSeries> FindSeries(const std::string& dom);

}  // namespace capstan

#endif  // DEPLOY_CLI_REPORT_CHROMIUM_H_
