#ifndef DEPLOY_LAUNCH_HOSTS_REMOTE_PROGRAMS_H_
#define DEPLOY_LAUNCH_HOSTS_REMOTE_PROGRAMS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "deploy/launch/hosts/host_list.h"
#include "deploy/launch/hosts/remote_hosts.h"

namespace capstan {

// Finds the folder with the programs on each host. The bundle of `list` is copied to the hosts that
// do not have it; it stays there for later jobs. `tell` gets a line when something is copied. Other
// versions than this program's are refused with FAILED_PRECONDITION; else the errors of RunAll.
absl::StatusOr<std::vector<std::string>> BringPrograms(
    const HostList& list, const std::function<void(const std::string&)>& tell, RemoteHosts* hosts);

}  // namespace capstan

#endif  // DEPLOY_LAUNCH_HOSTS_REMOTE_PROGRAMS_H_
