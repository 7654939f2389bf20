// The progress and the summary of a run, for `capstan report`.
#include "deploy/cli/report/chart_page.h"
#include "deploy/cli/report/progress_log.h"
#include "deploy/cli/report/run_charts.h"
#include "deploy/cli/text/summary.h"
#include "tests/fuzz/fuzz_input.h"

namespace capstan {
namespace {

void Fuzz(FuzzInput input) {
  FormatSummary(input.TakePart()).IgnoreError();
  const auto samples = ParseRunCourse(input.rest());
  if (!samples.ok()) return;
  ChartPageContent content;
  content.charts = RunCharts(*samples);
  ChartPage(content);
}

}  // namespace
}  // namespace capstan

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  capstan::Fuzz(capstan::FuzzInput(data, size));
  return 0;
}
