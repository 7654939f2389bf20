#ifndef DEPLOY_LAUNCH_RENDEZVOUS_H_
#define DEPLOY_LAUNCH_RENDEZVOUS_H_

#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace capstan {

// A job on several machines, as its flags describe it. They are typed alike on each machine. The
// machine of `host` coordinates; the processes of the others find it there.
struct Rendezvous {
  std::string host;  // a name or an address; an IPv6 address has no brackets
  int port = 0;      // 0: a free one; only on the coordinating machine
  int num_nodes = 1;
  // On each machine, unless the job's own numbers are given.
  int servers_per_node = 1;
  int workers_per_node = 1;
  // Interface or address range of the servers. Empty: the way to `host`.
  std::string network;

  std::string address() const;  // host:port
};

// The coordinating machine prints this and host:port when the others can come.
inline constexpr char kMeetingNotice[] = "the other machines meet at ";

inline constexpr int kMostMembersPerNode = 1024;  // of each role

// The servers and workers of a machine, unless a job has other numbers for it.
struct NodeMembers {
  int num_servers = 1;
  int num_workers = 1;
};

// Those in the flags servers_per_node and workers_per_node. `num_devices`: the default number of
// workers. INVALID_ARGUMENT names the flag.
absl::StatusOr<NodeMembers> ReadNodeMembers(const std::map<std::string, std::string>& flags,
                                            int num_devices);

// The rendezvous in the flags nnodes, rendezvous, servers_per_node, workers_per_node and network.
// Nothing: there is none. `num_devices`: the default of workers_per_node. INVALID_ARGUMENT names
// the flag, also one that counts only with --rendezvous or --hosts.
absl::StatusOr<std::optional<Rendezvous>> ReadRendezvous(
    const std::map<std::string, std::string>& flags, int num_devices);

// What this machine does.
struct NodeRole {
  bool coordinates = false;
  // Its address for other machines, and the range of this address alone.
  std::string address;
  std::string network;
};

// It coordinates if `host` is this machine and the port is free: so several can try on one machine.
// UNAVAILABLE if the host is not known; the errors of AddressIn.
absl::StatusOr<NodeRole> FindNodeRole(const Rendezvous& rendezvous);

// This machine's address in `network`, an interface or a range. Empty: the address on the way to
// `host`, or, if that is loopback only because the name stands for this machine, the default one.
absl::StatusOr<std::string> NodeAddress(const std::string& network, const std::string& host);

}  // namespace capstan

#endif  // DEPLOY_LAUNCH_RENDEZVOUS_H_
