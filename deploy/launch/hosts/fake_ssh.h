#ifndef DEPLOY_LAUNCH_HOSTS_FAKE_SSH_H_
#define DEPLOY_LAUNCH_HOSTS_FAKE_SSH_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "deploy/launch/hosts/remote_hosts.h"

namespace capstan {

// Hosts that are folders of this machine, under a folder of the test, and a program in the place of
// ssh. On a host, $HOME is its folder, and $host its name. There is no host "nobody".
class FakeSsh {
 public:
  explicit FakeSsh(const std::string& test_name)
      : folder_(std::filesystem::path(::testing::TempDir()) / test_name) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ / "logs");
    std::ofstream(folder_ / "ssh") << R"(#!/bin/sh
while [ "$1" = -o ]; do shift 2; done
export host="${1#*@}"
shift
[ "$host" != nobody ] || { echo 'ssh: no route to host' >&2; exit 255; }
export HOME=")" << folder_.string() << R"(/$host"
unset XDG_CACHE_HOME
mkdir -p "$HOME" && cd "$HOME"
exec sh -c "$*"
)";
    std::filesystem::permissions(folder_ / "ssh", std::filesystem::perms::owner_all);
  }

  std::string folder() const { return folder_; }
  // What RemoteHosts has told.
  const std::vector<std::string>& told() const { return told_; }
  void Interrupt() { is_interrupted_ = true; }

  RemoteHosts::Options Options(const std::string& list, Clock* clock) {
    RemoteHosts::Options options;
    options.hosts = *ReadHosts(list, /*num_workers=*/1);
    options.ssh = {folder_ / "ssh"};
    options.log_dir = folder_ / "logs";
    options.tell = [this](const std::string& line) { told_.push_back(line); };
    options.take_interrupt = [this] { return std::exchange(is_interrupted_, false); };
    options.clock = clock;
    return options;
  }

 private:
  const std::filesystem::path folder_;
  std::vector<std::string> told_;
  bool is_interrupted_ = false;
};

}  // namespace capstan

#endif  // DEPLOY_LAUNCH_HOSTS_FAKE_SSH_H_
