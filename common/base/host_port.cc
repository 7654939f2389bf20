#include "common/base/host_port.h"

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

constexpr int kLargestPort = 65535;
constexpr size_t kMostHostBytes = 255;

bool IsHost(absl::string_view host) {
  if (host.empty() || host.size() > kMostHostBytes) return false;
  const bool has_brackets = host.front() == '[' && host.back() == ']';
  if (has_brackets) host = host.substr(1, host.size() - 2);
  const absl::string_view forbidden = has_brackets ? " /[]@" : " /[]@:";
  return !host.empty() && host.find_first_of(forbidden) == host.npos && PrintableText(host) == host;
}

// -1: it is none.
int PortOf(absl::string_view text) {
  int port = 0;
  const bool has_only_digits = std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
  if (!has_only_digits || !absl::SimpleAtoi(text, &port) || port > kLargestPort) return -1;
  return port;
}

absl::string_view AdviceFor(absl::string_view text, absl::string_view host) {
  if (absl::StrContains(text, "://")) return "; leave out what is before the host";
  if (absl::StrContains(host, ":") && host.front() != '[') {
    return "; an IPv6 address needs brackets, as in [::1]:4000";
  }
  return "";
}

}  // namespace

absl::StatusOr<HostPort> ParseHostPort(absl::string_view what, absl::string_view text,
                                       int least_port) {
  const size_t colon = text.rfind(':');
  const bool has_port = colon != text.npos;
  const absl::string_view host = text.substr(0, has_port ? colon : text.size());
  const int port = has_port ? PortOf(text.substr(colon + 1)) : -1;
  if (IsHost(host) && port >= least_port) return HostPort{std::string(host), port};
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": expected host:port with a port from ", least_port, " to ", kLargestPort,
                   ", got \"", ShortPrintableText(text), "\"", AdviceFor(text, host)));
}

absl::StatusOr<std::vector<std::string>> ParseAddresses(absl::string_view what,
                                                        absl::string_view text) {
  std::vector<std::string> addresses;
  for (const absl::string_view address : absl::StrSplit(text, ',')) {
    if (address.empty() && !text.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          what, ": expected host:port, or several of them with one comma between two, ", "got \"",
          ShortPrintableText(text), "\""));
    }
    RETURN_IF_ERROR(ParseHostPort(what, address).status());
    if (std::find(addresses.begin(), addresses.end(), address) != addresses.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, ": expected different addresses, got ", address, " twice"));
    }
    addresses.emplace_back(address);
  }
  return addresses;
}

}  // namespace capstan
