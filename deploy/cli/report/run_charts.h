#ifndef DEPLOY_CLI_REPORT_RUN_CHARTS_H_
#define DEPLOY_CLI_REPORT_RUN_CHARTS_H_

#include <vector>

#include "deploy/cli/report/chart_page.h"
#include "deploy/cli/report/progress_log.h"

namespace capstan {

// The charts of a run: loss over time and over steps, steps of each worker over time, staleness,
// each worker's use of time, and bytes; in a job with a codec for gradients also the residual of
// each worker. None when no worker has done a step.
std::vector<Chart> RunCharts(const std::vector<RunSample>& all_samples);

}  // namespace capstan

#endif  // DEPLOY_CLI_REPORT_RUN_CHARTS_H_
