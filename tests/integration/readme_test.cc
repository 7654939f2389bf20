// Runs the commands of all READMEs and checks their results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "tests/integration/job_processes.h"
#include "tests/integration/readme_commands.h"
#include "tests/integration/readme_list.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;

constexpr const char* kReadmes[] = {"README.md",
                                    "common/DESIGN.md",
                                    "common/README.md",
                                    "common/codec/README.md",
                                    "common/scheduler/README.md",
                                    "common/transport/README.md",
                                    "deploy/README.md",
                                    "deploy/docker/README.md",
                                    "deploy/guide/changes.md",
                                    "deploy/guide/checkpoints.md",
                                    "deploy/guide/compression.md",
                                    "deploy/guide/contributing.md",
                                    "deploy/guide/data-and-models.md",
                                    "deploy/guide/first-job.md",
                                    "deploy/guide/local-steps.md",
                                    "deploy/guide/metrics.md",
                                    "deploy/guide/security.md",
                                    "deploy/guide/several-machines.md",
                                    "deploy/guide/watching.md",
                                    "deploy/guide/when-lost.md",
                                    "deploy/guide/your-program.md",
                                    "deploy/kubernetes/README.md",
                                    "deploy/slurm/README.md",
                                    "kernels/BENCHMARKS.md",
                                    "kernels/README.md",
                                    "server/consistency/README.md",
                                    "server/coordinator/README.md",
                                    "server/replication/README.md",
                                    "server/sparse/README.md",
                                    "tests/benchmark/LOG.md",
                                    "tests/benchmark/README.md",
                                    "tests/fuzz/README.md",
                                    "tests/simulation/README.md",
                                    "worker/client_api/README.md",
                                    "worker/dataset/README.md",
                                    "worker/python/README.md",
                                    "worker/models/sparse_training/README.md"};

// A built clone, with `capstan` on the path.
class Clone {
 public:
  explicit Clone(const std::string& folder) : folder_(folder), processes_(folder) {
    const std::string built = fs::current_path();
    for (const char* file : {"deploy/train_local.sh", "deploy/jobs", "worker"}) Link(built, file);
    Write("deploy/setup.sh", "exit 0");
    fs::create_symlink(built, path("bazel-bin"));
    // Builds nothing, because all is built, and runs programs.
    Write("bin/bazel",
          "if [[ $1 == build ]]; then [[ \"$*\" == *//deploy/cli:capstan ]]; exit; fi\n"
          "[[ $1 == run && $3 == -- ]] || exit 99\n"
          "program=\"${2#//}\" && shift 3 && exec \"" +
              path("bazel-bin") + "/${program/://}\" \"$@\"");
    Write("bin/capstan", "exec \"" + path("bazel-bin/deploy/cli/capstan") + "\" \"$@\"");
  }

  // Returns the exit code, as a shell does. The output is in output().
  int Do(const std::string& command) {
    processes_.Start(
        "command", "/bin/bash",
        {"-c", absl::StrCat("cd '", folder_, "' && PATH=\"$PWD/bin:$PATH\" && ", command)});
    const ChildExit exit = processes_.WaitForExit("command", absl::Seconds(180));
    return exit.signal == 0 ? exit.code : 128 + exit.signal;
  }
  std::string output() const { return processes_.Log("command"); }

  // The summary written since the last call; null: none.
  nlohmann::json TakeSummary() {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder_)) {
      if (entry.path().filename() != "summary.json") continue;
      const auto summary = nlohmann::json::parse(ReadFile(entry.path()));
      fs::remove(entry.path());
      return summary;
    }
    return nullptr;
  }

 private:
  std::string path(const std::string& file) const { return folder_ + "/" + file; }
  // Links the files of a folder one by one: paths upward from the folder then stay in the clone.
  void Link(const std::string& built, const std::string& name) {
    fs::create_directories(fs::path(path(name)).parent_path());
    if (!fs::is_directory(name)) return fs::create_symlink(built + "/" + name, path(name));
    fs::create_directories(path(name));
    for (const fs::directory_entry& entry : fs::directory_iterator(name)) {
      fs::create_symlink(built + "/" + entry.path().string(), path(entry.path()));
    }
  }
  void Write(const std::string& name, const std::string& script) {
    fs::create_directories(fs::path(path(name)).parent_path());
    std::ofstream(path(name)) << "#!/bin/bash\n" << script << "\n";
    fs::permissions(path(name), fs::perms::owner_all);
  }

  const std::string folder_;
  JobProcesses processes_;
};

std::unique_ptr<Clone> MakeClone() {
  std::string folder = testing::TempDir() + "/clone-XXXXXX";
  return std::make_unique<Clone>(mkdtemp(folder.data()));
}

void Check(const Listed& listed, Clone& clone) {
  const std::string command = absl::StrReplaceAll(listed.command, listed.replaced);
  SCOPED_TRACE(command);
  ASSERT_EQ(clone.Do(command), listed.exit_code) << clone.output();
  EXPECT_THAT(clone.output(), testing::HasSubstr(listed.prints));
  const nlohmann::json summary = clone.TakeSummary();
  if (listed.summary.empty()) {
    EXPECT_TRUE(summary.is_null()) << summary;
    return;
  }
  ASSERT_TRUE(summary.is_object()) << clone.output();
  const auto expected = nlohmann::json::parse(listed.summary);
  for (const auto& [key, value] : expected.items()) {
    EXPECT_EQ(summary[key], value) << key;
  }
  if (listed.least_accuracy > 0) {
    EXPECT_GE(summary["test_accuracy"].get<double>(), listed.least_accuracy) << clone.output();
  }
  EXPECT_FALSE(summary.contains("warning")) << clone.output();
}

std::vector<std::vector<std::string>> AllBlocks() {
  std::vector<std::vector<std::string>> all;
  for (const char* readme : kReadmes) {
    for (std::vector<std::string>& block : ReadmeCommands(ReadFile(readme))) {
      all.push_back(std::move(block));
    }
  }
  return all;
}

std::set<std::string> AllCommands() {
  std::set<std::string> all;
  for (const std::vector<std::string>& block : AllBlocks()) all.insert(block.begin(), block.end());
  return all;
}

TEST(ReadmeTest, CommandsAreThoseOfBlocksAndTheOnesInTheTextThatTrain) {
  EXPECT_THAT(
      ReadmeCommands("Say `capstan run`, or `capstan run --steps=3`, not `capstan check x`.\n"
                     "```\n"
                     "capstan run --seed=1   # a comment\n"
                     "  its output\n"
                     "\n"
                     "tar -xf a \\\n"
                     "    --verbose && ls\n"
                     "```\n"
                     "```\n diagram\n```\n"
                     "```python\nimport os\n```\n"),
      testing::ElementsAre(
          testing::ElementsAre("capstan run --steps=3"),
          testing::ElementsAre("capstan run --seed=1", "tar -xf a --verbose && ls"),
          testing::IsEmpty(), testing::IsEmpty()));
}

TEST(ReadmeTest, EveryCommandIsListedAndEveryListedOneIsInAReadme) {
  std::set<std::string> listed;
  for (const Listed& one : AllListed()) listed.insert(one.command);
  EXPECT_EQ(AllCommands(), listed) << "a new or changed command of a README needs a line in "
                                      "AllListed(), which says how to test it";
}

TEST(ReadmeTest, OtherTestsThatAreNamedExist) {
  for (const Listed& listed : AllListed()) {
    if (listed.other_test.empty()) continue;
    const std::vector<std::string> parts = absl::StrSplit(listed.other_test.substr(2), ':');
    EXPECT_THAT(ReadFile(parts[0] + "/BUILD"), testing::HasSubstr("name = \"" + parts[1] + "\""))
        << listed.command;
  }
}

TEST(ReadmeTest, OutputThatIsTestedIsInAReadme) {
  std::string all;
  for (const char* readme : kReadmes) all += ReadFile(readme);
  for (const Listed& listed : AllListed()) EXPECT_THAT(all, testing::HasSubstr(listed.prints));
}

TEST(ReadmeTest, CommandsDoWhatTheyAreSaidToDo) {
  std::multimap<std::string, Listed> to_run;
  for (const Listed& listed : AllListed()) {
    if (listed.is_run) to_run.emplace(listed.command, listed);
  }
  for (const std::vector<std::string>& block : AllBlocks()) {
    const std::unique_ptr<Clone> clone = MakeClone();
    for (const std::string& command : block) {
      for (auto [it, end] = to_run.equal_range(command); it != end; ++it) Check(it->second, *clone);
    }
  }
}

}  // namespace
}  // namespace capstan
