#ifndef DEPLOY_LAUNCH_HOSTS_HOST_LIST_H_
#define DEPLOY_LAUNCH_HOSTS_HOST_LIST_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace capstan {

// A machine that ssh reaches.
struct Host {
  std::string target;  // as ssh takes it: "ann@node1"
  std::string name;    // the same without the user
  int num_workers = 1;
};

// A job on machines that ssh reaches, as its flags describe it. The first one coordinates.
struct HostList {
  std::vector<Host> hosts;  // at least one
  int servers_per_host = 1;
  // Interface or address range of the servers. Empty: the way to this machine.
  std::string network;
  // The program that reaches a host, and its flags.
  std::vector<std::string> ssh = {"ssh"};
  // The programs: an archive or a folder on this machine, which is copied to the hosts, or a folder
  // that each host has. One of the two is empty.
  std::string bundle;
  std::string remote_programs;

  int num_servers() const { return servers_per_host * static_cast<int>(hosts.size()); }
  int num_workers() const;
};

// The hosts in `value`: a list "a,ann@b:2,[::1]:4", or the name of a file with one of them a line;
// there, # begins a comment. The number is that of the workers; `num_workers` if there is none.
// INVALID_ARGUMENT says what was expected, and where.
absl::StatusOr<std::vector<Host>> ReadHosts(const std::string& value, int num_workers);

// The list in the flags hosts, ssh, bundle, remote_programs, servers_per_node, workers_per_node and
// network. Nothing: there is none. `num_devices`: the default of workers_per_node. `own_path`:
// that of this program; the bundle that it is a part of is the default of bundle.
// INVALID_ARGUMENT names the flag, also one that counts only with --hosts.
absl::StatusOr<std::optional<HostList>> ReadHostList(std::map<std::string, std::string> flags,
                                                     int num_devices, const std::string& own_path);

}  // namespace capstan

#endif  // DEPLOY_LAUNCH_HOSTS_HOST_LIST_H_
