#ifndef DEPLOY_CLI_REPORT_RUN_REPORT_H_
#define DEPLOY_CLI_REPORT_RUN_REPORT_H_

#include <string>

#include "absl/status/statusor.h"
#include "deploy/cli/report/chart_page.h"

namespace capstan {

// The charts and, once it has ended, the figures of the job that `capstan run` has kept in
// `run_dir`. NOT_FOUND when there is no such folder or it has no progress; INVALID_ARGUMENT when
// its progress cannot be read or has no step of any worker.
absl::StatusOr<ChartPageContent> RunReport(const std::string& run_dir);

}  // namespace capstan

#endif  // DEPLOY_CLI_REPORT_RUN_REPORT_H_
