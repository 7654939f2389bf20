#include "deploy/launch/rendezvous.h"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/host_port.h"
#include "common/base/status_macros.h"
#include "common/net/listening_socket.h"
#include "common/net/own_address.h"

namespace capstan {
namespace {

constexpr int kMostNodes = 4096;

using Flags = std::map<std::string, std::string>;

// The flag's number from `least` to `most`, or `unless_given`.
absl::StatusOr<int> NumberOf(const Flags& flags, const std::string& name, int least, int most,
                             int unless_given) {
  const auto found = flags.find(name);
  if (found == flags.end()) return unless_given;
  int number = 0;
  if (absl::SimpleAtoi(found->second, &number) && number >= least && number <= most) return number;
  return absl::InvalidArgumentError(absl::StrCat("--", name, ": expected a number from ", least,
                                                 " to ", most, ", got \"", found->second, "\""));
}

absl::Status CheckAlone(const Flags& flags) {
  if (flags.count("hosts") > 0) return absl::OkStatus();
  for (const std::string name :
       {"nnodes", "servers_per_node", "workers_per_node", "network", "insecure"}) {
    if (flags.count(name) == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--", name,
                     ": expected a job on several machines, got no "
                     "--rendezvous=HOST:PORT or --hosts=HOST,...; add one, or leave out --",
                     name));
  }
  return absl::OkStatus();
}

// Whether a process can listen at the port.
bool IsFree(const std::string& host, int port) {
  const bool is_ipv6 = host.find(':') != host.npos;
  const ListeningSocket socket = ListenAt({is_ipv6 ? "::" : "0.0.0.0", port});
  if (socket.socket < 0) return false;
  close(socket.socket);
  return true;
}

bool IsLoopback(const std::string& address) {
  return address == "::1" || address.rfind("127.", 0) == 0;
}

}  // namespace

std::string Rendezvous::address() const { return HostAndPort(host, port); }

absl::StatusOr<NodeMembers> ReadNodeMembers(const Flags& flags, int num_devices) {
  NodeMembers members;
  ASSIGN_OR_RETURN(members.num_servers,
                   NumberOf(flags, "servers_per_node", 0, kMostMembersPerNode, 1));
  ASSIGN_OR_RETURN(members.num_workers,
                   NumberOf(flags, "workers_per_node", 0, kMostMembersPerNode, num_devices));
  return members;
}

absl::StatusOr<std::optional<Rendezvous>> ReadRendezvous(const Flags& flags, int num_devices) {
  const auto place = flags.find("rendezvous");
  if (place == flags.end()) {
    RETURN_IF_ERROR(CheckAlone(flags));
    return std::nullopt;
  }
  Rendezvous rendezvous;
  ASSIGN_OR_RETURN(HostPort address,
                   ParseHostPort("--rendezvous", place->second, /*least_port=*/0));
  rendezvous.host = std::move(address.host);
  rendezvous.port = address.port;
  if (flags.count("nnodes") == 0) {
    return absl::InvalidArgumentError(
        "--rendezvous: expected the number of machines with it, got none; add --nnodes=N");
  }
  ASSIGN_OR_RETURN(rendezvous.num_nodes, NumberOf(flags, "nnodes", 1, kMostNodes, 1));
  ASSIGN_OR_RETURN(const NodeMembers members, ReadNodeMembers(flags, num_devices));
  rendezvous.servers_per_node = members.num_servers;
  rendezvous.workers_per_node = members.num_workers;
  if (const auto found = flags.find("network"); found != flags.end()) {
    rendezvous.network = found->second;
  }
  return rendezvous;
}

absl::StatusOr<NodeRole> FindNodeRole(const Rendezvous& rendezvous) {
  NodeRole role;
  ASSIGN_OR_RETURN(const std::vector<InterfaceAddress> own, InterfaceAddresses());
  ASSIGN_OR_RETURN(const bool is_here, IsThisMachine(rendezvous.host, own));
  role.coordinates = is_here && IsFree(rendezvous.host, rendezvous.port);
  ASSIGN_OR_RETURN(role.address, NodeAddress(rendezvous.network, rendezvous.host));
  const bool is_ipv6 = role.address.find(':') != role.address.npos;
  role.network = absl::StrCat(role.address, is_ipv6 ? "/128" : "/32");
  return role;
}

absl::StatusOr<std::string> NodeAddress(const std::string& network, const std::string& host) {
  ASSIGN_OR_RETURN(const std::vector<InterfaceAddress> own, InterfaceAddresses());
  if (!network.empty()) return AddressIn(network, own);
  if (host.empty()) return DefaultAddress(own);
  ASSIGN_OR_RETURN(std::string address, AddressTowards(host));
  // Debian gives a machine's own name the address 127.0.1.1.
  const bool means_loopback = IsLoopback(host) || host == "localhost";
  return IsLoopback(address) && !means_loopback ? DefaultAddress(own) : address;
}

}  // namespace capstan
