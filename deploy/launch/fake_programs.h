#ifndef DEPLOY_LAUNCH_FAKE_PROGRAMS_H_
#define DEPLOY_LAUNCH_FAKE_PROGRAMS_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace capstan {

// Shell scripts in the place of capstan's programs, in an empty folder of their own. In a script,
// "$port_file" and "$summary" are the coordinator's files.
class FakePrograms {
 public:
  // The coordinator listens at an address where nobody answers.
  static constexpr char kListen[] =
      "echo 127.0.0.1:1 > $port_file.new; mv $port_file.new $port_file";
  static constexpr char kRunForever[] = "exec sleep 1000";

  explicit FakePrograms(const std::string& test_name)
      : folder_(std::filesystem::path(::testing::TempDir()) / test_name) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }

  // `name`: "capstan_server", ...
  void Write(const std::string& name, const std::string& script) const {
    std::ofstream(Path(name)) << "#!/bin/sh\n"
                                 "for arg; do case $arg in\n"
                                 "  --port_file=*) port_file=${arg#*=};;\n"
                                 "  --summary_json=*) summary=${arg#*=};;\n"
                                 "esac; done\n"
                              << script << "\n";
    std::filesystem::permissions(Path(name), std::filesystem::perms::owner_all);
  }

  std::string Path(const std::string& name) const { return folder_ / name; }

 private:
  const std::filesystem::path folder_;
};

}  // namespace capstan

#endif  // DEPLOY_LAUNCH_FAKE_PROGRAMS_H_
