#ifndef DEPLOY_CLI_EVALUATE_COMMAND_H_
#define DEPLOY_CLI_EVALUATE_COMMAND_H_

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace capstan {

// `capstan evaluate`: reads the model in the safetensors file `path`, computes it on the CPU on the
// job's test samples, and prints accuracy and loss with all digits. `job_flags` override fields of
// the job file. INVALID_ARGUMENT names each table that the file and the job's model do not share.
absl::Status EvaluateCommand(const std::string& path, const std::string& job_file,
                             const std::vector<std::string>& job_flags, std::ostream& out);

}  // namespace capstan

#endif  // DEPLOY_CLI_EVALUATE_COMMAND_H_
