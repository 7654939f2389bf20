#ifndef DEPLOY_CLI_KEYS_KEYS_COMMAND_H_
#define DEPLOY_CLI_KEYS_KEYS_COMMAND_H_

#include <ostream>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "deploy/cli/keys/keys_request.h"

namespace capstan {

// `capstan keys`: makes a folder of keys (job_keys.h), prints what is new in it, and nothing
// secret. FAILED_PRECONDITION: a folder has other keys than expected. Else the errors of the files.
absl::Status KeysCommand(const KeysRequest& request, absl::Time now, std::ostream& out);

}  // namespace capstan

#endif  // DEPLOY_CLI_KEYS_KEYS_COMMAND_H_
