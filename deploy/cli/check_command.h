#ifndef DEPLOY_CLI_CHECK_COMMAND_H_
#define DEPLOY_CLI_CHECK_COMMAND_H_

#include <ostream>
#include <string>

#include "absl/status/status.h"

namespace capstan {

// `capstan check`: checks the history in a file or folder against the consistency contract, and
// prints what was checked. ABORTED, with the exchanges that prove it, when the contract was broken;
// other errors say why the history cannot be read.
absl::Status CheckCommand(const std::string& path, std::ostream& out);

}  // namespace capstan

#endif  // DEPLOY_CLI_CHECK_COMMAND_H_
