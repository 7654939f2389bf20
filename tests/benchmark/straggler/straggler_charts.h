#ifndef TESTS_BENCHMARK_STRAGGLER_STRAGGLER_CHARTS_H_
#define TESTS_BENCHMARK_STRAGGLER_STRAGGLER_CHARTS_H_

#include <string>
#include <vector>

#include "deploy/cli/report/chart_page.h"
#include "tests/benchmark/straggler/straggler_pattern.h"
#include "tests/benchmark/straggler/straggler_run.h"

namespace capstan {

// One training of the study.
struct StudyRun {
  StragglerPattern::Kind pattern = StragglerPattern::Kind::kNone;
  std::string mode;
  StragglerRunResult result;
};

// The options of all trainings, in one line.
std::string StudySubtitle(const StragglerRunOptions& options);

// The study's page. Bars show figures by mode, with a series for each pattern. For each pattern, a
// chart shows the loss over time, with a line for each mode.
ChartPageContent StudyPage(const std::vector<StudyRun>& runs, const StragglerRunOptions& options);

}  // namespace capstan

#endif  // TESTS_BENCHMARK_STRAGGLER_STRAGGLER_CHARTS_H_
