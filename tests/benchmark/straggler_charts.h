#ifndef TESTS_BENCHMARK_STRAGGLER_CHARTS_H_
#define TESTS_BENCHMARK_STRAGGLER_CHARTS_H_

#include <string>
#include <vector>

#include "deploy/cli/report/chart_page.h"
#include "tests/benchmark/straggler_pattern.h"
#include "tests/benchmark/straggler_run.h"

namespace capstan {

// One training of the study.
struct StudyRun {
  StragglerPattern::Kind pattern = StragglerPattern::Kind::kNone;
  std::string mode;
  StragglerRunResult result;
};

// What all trainings of the study have in common, in one line.
std::string StudySubtitle(const StragglerRunOptions& options);

// The study's page: figures by mode, a series for each pattern; and for each pattern the loss over
// time, a line for each mode.
ChartPageContent StudyPage(const std::vector<StudyRun>& runs, const StragglerRunOptions& options);

}  // namespace capstan

#endif  // TESTS_BENCHMARK_STRAGGLER_CHARTS_H_
