#ifndef DEPLOY_CLI_REPORT_RUN_REPORT_H_
#define DEPLOY_CLI_REPORT_RUN_REPORT_H_

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "deploy/cli/report/chart_page.h"

namespace capstan {

// The charts of the run in `run_dir`, and the figures of its summary once the job is done.
// NOT_FOUND when the folder or its progress file is missing; INVALID_ARGUMENT when the progress
// cannot be read or has no step.
absl::StatusOr<ChartPageContent> RunReport(const std::string& run_dir);

// `capstan report`: writes the HTML page of RunReport(run_dir) to `output` (empty: report.html in
// `run_dir`), and prints its path. Returns errors of RunReport, and UNAVAILABLE when the page
// cannot be written.
absl::Status ReportCommand(const std::string& run_dir, const std::string& output,
                           std::ostream& out);

}  // namespace capstan

#endif  // DEPLOY_CLI_REPORT_RUN_REPORT_H_
