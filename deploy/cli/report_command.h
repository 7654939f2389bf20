#ifndef DEPLOY_CLI_REPORT_COMMAND_H_
#define DEPLOY_CLI_REPORT_COMMAND_H_

#include <ostream>
#include <string>

#include "absl/status/status.h"

namespace capstan {

// `capstan report`: makes one HTML page of what `capstan run` has kept in `run_dir`, writes it to
// `output` (empty: report.html in `run_dir`), and prints where it is. NOT_FOUND or INVALID_ARGUMENT
// when the run cannot be read, UNAVAILABLE when the page cannot be written.
absl::Status ReportCommand(const std::string& run_dir, const std::string& output,
                           std::ostream& out);

}  // namespace capstan

#endif  // DEPLOY_CLI_REPORT_COMMAND_H_
