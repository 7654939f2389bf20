#ifndef DEPLOY_CLI_TRACE_COMMAND_H_
#define DEPLOY_CLI_TRACE_COMMAND_H_

#include <ostream>
#include <string>

#include "absl/status/status.h"

namespace capstan {

// `capstan trace`: merges the traces (*.trace.json) in `run_dir` into one, writes it to `output`
// (empty: trace.json in `run_dir`), and prints what it has and how it is opened. NOT_FOUND when
// there are none; else the errors of MergeTraces.
absl::Status TraceCommand(const std::string& run_dir, const std::string& output, std::ostream& out);

}  // namespace capstan

#endif  // DEPLOY_CLI_TRACE_COMMAND_H_
