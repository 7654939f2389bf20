#ifndef DEPLOY_LAUNCH_HOSTS_JOB_FOLDERS_H_
#define DEPLOY_LAUNCH_HOSTS_JOB_FOLDERS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "deploy/launch/hosts/remote_hosts.h"

namespace capstan {

// A folder of a job on each host, for its user alone: with the job's file and keys, and with the
// results of the host in `run`. Not thread-safe.
class JobFolders {
 public:
  static constexpr char kResults[] = "run";

  // `id`: letters and digits; no other job has it. `hosts` outlives this.
  JobFolders(const std::string& id, RemoteHosts* hosts) : id_(id), hosts_(*hosts) {}

  // Makes the folders, with files of this machine. `files`: arguments of tar.
  absl::Status Send(const std::string& files);
  // Shell commands that go to the folder on the host.
  std::string Enter(int host) const;
  // Copies the files with names of a run from `results` of each host to the folder `to` of this
  // machine, and nothing else: a host cannot put anything elsewhere.
  struct Results {
    std::string results;  // in the host's folder
    std::string to;
  };
  absl::Status Fetch(const std::vector<Results>& results);
  // Removes the folders on the hosts; `keeps_results`: only the keys.
  absl::Status Remove(bool keeps_results);
  // For messages.
  std::string Name() const { return absl::StrCat("~/.cache/capstan/job.", id_, ".*"); }

 private:
  const std::string id_;
  RemoteHosts& hosts_;
};

}  // namespace capstan

#endif  // DEPLOY_LAUNCH_HOSTS_JOB_FOLDERS_H_
