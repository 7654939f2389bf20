#include "deploy/launch/hosts/host_list.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/input_file.h"
#include "common/base/status_macros.h"
#include "deploy/launch/rendezvous.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;

using Flags = std::map<std::string, std::string>;

constexpr size_t kMostHosts = 4096;

// Whether ssh takes it as a name, and not as a flag. It is also a part of file names.
bool IsName(absl::string_view text) {
  const auto is_part = [](char c) {
    return absl::ascii_isalnum(c) || absl::string_view("-_.:%").find(c) != absl::string_view::npos;
  };
  return !text.empty() && text[0] != '-' && std::all_of(text.begin(), text.end(), is_part) &&
         text.find_first_not_of('.') != text.npos;
}

// `where` begins the message: the flag, or the file and the line.
absl::StatusOr<Host> ReadHost(absl::string_view text, int num_workers, absl::string_view where) {
  const absl::Status wrong = absl::InvalidArgumentError(
      absl::StrCat(where,
                   ": expected a host as in node1, ann@node1, node1:2 or [::1]:2, where 2 is "
                   "the number of its workers, 0 to ",
                   kMostMembersPerNode, "; got \"", text, "\""));
  Host host;
  host.num_workers = num_workers;
  absl::string_view rest = text;
  std::string user;
  if (const size_t at = rest.find('@'); at != rest.npos) {
    if (!IsName(rest.substr(0, at))) return wrong;
    user = std::string(rest.substr(0, at + 1));
    rest.remove_prefix(at + 1);
  }
  // An IPv6 address has brackets, because it has colons.
  const size_t name_end = !rest.empty() && rest[0] == '[' ? rest.find(']') : rest.find(':');
  const bool has_brackets = !rest.empty() && rest[0] == '[';
  if (has_brackets && name_end == rest.npos) return wrong;
  host.name = std::string(has_brackets ? rest.substr(1, name_end - 1) : rest.substr(0, name_end));
  if (!IsName(host.name)) return wrong;
  host.target = user + host.name;
  rest = name_end == rest.npos ? "" : rest.substr(name_end + (has_brackets ? 1 : 0));
  if (rest.empty()) return host;
  const bool is_number = rest[0] == ':' && absl::SimpleAtoi(rest.substr(1), &host.num_workers);
  if (!is_number || host.num_workers < 0 || host.num_workers > kMostMembersPerNode) return wrong;
  return host;
}

absl::Status CheckList(const std::vector<Host>& hosts) {
  if (hosts.empty() || hosts.size() > kMostHosts) {
    return absl::InvalidArgumentError(
        absl::StrCat("--hosts: expected 1 to ", kMostHosts, " hosts, got ", hosts.size()));
  }
  std::set<std::string> names;
  for (const Host& host : hosts) {
    if (names.insert(host.name).second) continue;
    return absl::InvalidArgumentError(absl::StrCat("--hosts: expected each host once, got ",
                                                   host.name, " twice; ", host.name,
                                                   ":2 is a host with two workers"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Host>> ReadHostFile(const std::string& path, int num_workers) {
  constexpr uint64_t kMostBytes = 4 << 20;
  const absl::StatusOr<std::string> lines = ReadInputText(path, kMostBytes);
  if (!lines.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--hosts: expected a file of hosts, got ", path,
                                                   " (", lines.status().message(), ")"));
  }
  std::vector<Host> hosts;
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(*lines, '\n')) {
    ++number;
    const absl::string_view text = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (text.empty()) continue;
    ASSIGN_OR_RETURN(Host host, ReadHost(text, num_workers, absl::StrCat(path, ":", number)));
    hosts.push_back(std::move(host));
  }
  return hosts;
}

// The folder of the bundle that has the program at `own_path`; empty: it is in none.
std::string OwnBundle(const std::string& own_path) {
  const fs::path folder = fs::path(own_path).parent_path().parent_path();
  std::error_code ignored;
  return fs::exists(folder / "capstan.spdx.json", ignored) ? folder.string() : "";
}

absl::Status FindPrograms(const Flags& flags, const std::string& own_path, HostList* list) {
  const auto remote = flags.find("remote_programs");
  const auto bundle = flags.find("bundle");
  if (remote != flags.end() && bundle != flags.end()) {
    return absl::InvalidArgumentError(
        "--remote_programs: expected it without --bundle, got both; leave out one of the two");
  }
  if (remote != flags.end()) {
    list->remote_programs = remote->second;
    if (!remote->second.empty() && remote->second[0] == '/') return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("--remote_programs: expected a folder of the hosts that begins with /, got \"",
                     remote->second, "\""));
  }
  list->bundle = bundle != flags.end() ? bundle->second : OwnBundle(own_path);
  std::error_code ignored;
  if (list->bundle.empty() || !fs::exists(list->bundle, ignored)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--bundle: expected the programs for the hosts, got ",
                     list->bundle.empty() ? "none" : absl::StrCat("no file ", list->bundle),
                     "; deploy/bundle.sh makes capstan.tar.gz. If all hosts have the programs, "
                     "give their folder "
                     "with --remote_programs=DIR"));
  }
  return absl::OkStatus();
}

absl::Status CheckOthers(const Flags& flags) {
  const bool has_hosts = flags.count("hosts") > 0;
  for (const std::string name : {"ssh", "bundle", "remote_programs"}) {
    if (has_hosts || flags.count(name) == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--", name, ": expected --hosts=HOST,... with it, got none; add it, or leave out --",
        name));
  }
  for (const std::string name : {"rendezvous", "nnodes", "record_history"}) {
    if (!has_hosts || flags.count(name) == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--", name, ": expected a job without --hosts, got both; leave out one of the two"));
  }
  return absl::OkStatus();
}

}  // namespace

int HostList::num_workers() const {
  int sum = 0;
  for (const Host& host : hosts) sum += host.num_workers;
  return sum;
}

absl::StatusOr<std::vector<Host>> ReadHosts(const std::string& value, int num_workers) {
  std::vector<Host> hosts;
  std::error_code ignored;
  if (fs::exists(value, ignored) && !fs::is_directory(value, ignored)) {
    ASSIGN_OR_RETURN(hosts, ReadHostFile(value, num_workers));
  } else {
    for (absl::string_view text : absl::StrSplit(value, ',')) {
      ASSIGN_OR_RETURN(Host host, ReadHost(text, num_workers, "--hosts"));
      hosts.push_back(std::move(host));
    }
  }
  RETURN_IF_ERROR(CheckList(hosts));
  return hosts;
}

absl::StatusOr<std::optional<HostList>> ReadHostList(Flags flags, int num_devices,
                                                     const std::string& own_path) {
  RETURN_IF_ERROR(CheckOthers(flags));
  if (flags.count("hosts") == 0) return std::nullopt;
  HostList list;
  ASSIGN_OR_RETURN(const NodeMembers members, ReadNodeMembers(flags, num_devices));
  ASSIGN_OR_RETURN(list.hosts, ReadHosts(flags["hosts"], members.num_workers));
  list.servers_per_host = members.num_servers;
  list.network = flags["network"];
  if (const auto ssh = flags.find("ssh"); ssh != flags.end()) {
    list.ssh = absl::StrSplit(ssh->second, ' ', absl::SkipEmpty());
    if (list.ssh.empty()) {
      return absl::InvalidArgumentError(
          "--ssh: expected a program and its flags, as in \"ssh -p 2222\", got none");
    }
  }
  RETURN_IF_ERROR(FindPrograms(flags, own_path, &list));
  return list;
}

}  // namespace capstan
