#include "deploy/cli/keys/keys_request.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "common/trust/make_keys.h"

namespace capstan {
namespace {

constexpr int kMostDays = 36500;

absl::Status FlagError(absl::string_view flag, absl::string_view expected, absl::string_view got) {
  return absl::InvalidArgumentError(
      absl::StrCat("flag --", flag, ": expected ", expected, ", got ", got.empty() ? "none" : got));
}

// Hosts in a list with commas, each once.
absl::StatusOr<std::vector<std::string>> ReadHosts(const std::string& list) {
  std::vector<std::string> hosts;
  for (std::string& host : std::vector<std::string>(absl::StrSplit(list, ','))) {
    RETURN_IF_ERROR(Annotate(CheckHost(host), "flag --hosts"));
    const bool is_new = std::find(hosts.begin(), hosts.end(), host) == hosts.end();
    if (is_new) hosts.push_back(std::move(host));
  }
  return hosts;
}

absl::StatusOr<Right> ReadRight(const std::string& name) {
  for (const Right right : kWeakerRights) {
    if (name == RightName(right)) return right;
  }
  return FlagError("right", "look, read or take_part", name);
}

absl::StatusOr<int> ReadDays(const std::string& text) {
  int days = 0;
  if (absl::SimpleAtoi(text, &days) && days >= 1 && days <= kMostDays) return days;
  return FlagError("days", absl::StrCat("a number from 1 to ", kMostDays), text);
}

// Whether the flags go together.
absl::Status CheckRequest(const KeysRequest& request) {
  if (request.out.empty()) return FlagError("out", "DIR, the folder to make", "");
  const bool has_right = request.right.has_value();
  if (request.from.empty()) {
    return has_right ? FlagError("from", "DIR, the folder with the full token, beside --right", "")
                     : absl::OkStatus();
  }
  if (has_right == request.hosts.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("expected --right=RIGHT or --hosts=HOST,... beside --from, got ",
                   has_right ? "both; who listens at hosts needs the full token" : "none"));
}

}  // namespace

absl::StatusOr<KeysRequest> ReadKeysRequest(std::map<std::string, std::string> flags) {
  KeysRequest request;
  request.out = flags["out"];
  if (flags.count("from") > 0) {
    request.from = flags["from"];
    if (request.from.empty()) return FlagError("from", "DIR, the folder with the full token", "");
  }
  if (flags.count("right") > 0) {
    ASSIGN_OR_RETURN(request.right, ReadRight(flags["right"]));
  }
  if (flags.count("hosts") > 0) {
    ASSIGN_OR_RETURN(request.hosts, ReadHosts(flags["hosts"]));
  }
  if (flags.count("days") > 0) {
    ASSIGN_OR_RETURN(request.days, ReadDays(flags["days"]));
  }
  RETURN_IF_ERROR(CheckRequest(request));
  return request;
}

}  // namespace capstan
