#ifndef DEPLOY_CLI_REPORT_RUN_REPORT_H_
#define DEPLOY_CLI_REPORT_RUN_REPORT_H_

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "deploy/cli/report/chart_page.h"

namespace capstan {

// The charts and, once it has ended, the figures of the job that `capstan run` has kept in
// `run_dir`. NOT_FOUND when there is no such folder or it has no progress; INVALID_ARGUMENT when
// its progress cannot be read or has no step of any worker.
absl::StatusOr<ChartPageContent> RunReport(const std::string& run_dir);

// `capstan report`: makes one HTML page of what `capstan run` has kept in `run_dir`, writes it to
// `output` (empty: report.html in `run_dir`), and prints where it is. NOT_FOUND or INVALID_ARGUMENT
// when the run cannot be read, UNAVAILABLE when the page cannot be written.
absl::Status ReportCommand(const std::string& run_dir, const std::string& output,
                           std::ostream& out);

}  // namespace capstan

#endif  // DEPLOY_CLI_REPORT_RUN_REPORT_H_
