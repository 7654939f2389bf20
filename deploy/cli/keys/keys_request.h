#ifndef DEPLOY_CLI_KEYS_KEYS_REQUEST_H_
#define DEPLOY_CLI_KEYS_KEYS_REQUEST_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/trust/job_token.h"

namespace capstan {

// What `capstan keys` makes.
struct KeysRequest {
  // The folder to make, or to write to. Required.
  std::string out;
  // The folder with the keys that `out` gets a part of; empty: `out` gets its own.
  std::string from;
  // With `from`: what the holder of `out` may do. None: everything.
  std::optional<Right> right;
  // The hosts in the certificate; empty: those of the earlier one, or this machine's names.
  std::vector<std::string> hosts;
  // How long the certificate is valid.
  int days = 365;
};

// The request in the flags out, from, right, hosts and days. INVALID_ARGUMENT names the flag.
absl::StatusOr<KeysRequest> ReadKeysRequest(std::map<std::string, std::string> flags);

}  // namespace capstan

#endif  // DEPLOY_CLI_KEYS_KEYS_REQUEST_H_
