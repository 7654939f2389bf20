// A job's model in a file: written at the end, tested again, and begun with.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/model_file/model_file.h"
#include "tests/integration/job_processes.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ModelTest : public testing::Test {
 protected:
  ModelTest() {
    std::string folder = testing::TempDir() + "/capstan-XXXXXX";
    processes_ = std::make_unique<JobProcesses>(mkdtemp(folder.data()));
  }

  // The exit code of `capstan` with these arguments; its log has the name of the command.
  int Capstan(const std::vector<std::string>& args) {
    processes_->Start(args[0], "deploy/cli/capstan", args);
    return processes_->WaitForExit(args[0], absl::Seconds(60)).code;
  }
  int Run(std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"run", "--run_dir=" + processes_->path("run-dir")});
    return Capstan(flags);
  }
  nlohmann::json Summary() {
    return nlohmann::json::parse(ReadFile(processes_->path("run-dir/summary.json")));
  }
  std::string model() const { return processes_->path("m.safetensors"); }

  std::unique_ptr<JobProcesses> processes_;
};

// Has the programs of a test use Haswell's kernels of OpenBLAS, unless the environment names
// others. With these kernels, sums depend on the number of threads.
class KernelsThatTellThreadsApart {
 public:
  KernelsThatTellThreadsApart() {
#if defined(__x86_64__)
    is_set_ = getenv(kKernels) == nullptr && __builtin_cpu_supports("avx2") != 0;
#endif
    if (is_set_) setenv(kKernels, "Haswell", /*overwrite=*/0);
  }
  ~KernelsThatTellThreadsApart() {
    if (is_set_) unsetenv(kKernels);
  }

 private:
  static constexpr char kKernels[] = "OPENBLAS_CORETYPE";
  bool is_set_ = false;
};

TEST_F(ModelTest, EvaluateGivesTheSummarysFiguresToTheLastDigit) {
  // Holds with all kernels. With these, it also holds only if `evaluate` has one thread, as
  // workers.
  const KernelsThatTellThreadsApart kernels;
  for (const std::string transport : {"grpc", "ucx"}) {
    for (const std::string consistency : {"bsp", "ssp", "async"}) {
      SCOPED_TRACE(transport + " " + consistency);
      ASSERT_EQ(Run({"--steps=60", "--output=" + model(), "--consistency=" + consistency,
                     "--transport=" + transport}),
                0)
          << processes_->Log("run");
      const nlohmann::json summary = Summary();
      ASSERT_EQ(Capstan({"evaluate", model()}), 0) << processes_->Log("evaluate");
      EXPECT_THAT(
          processes_->Log("evaluate"),
          AllOf(HasSubstr("job: capstan\n"), HasSubstr("step: 60\n"),
                HasSubstr(absl::StrCat("test accuracy ", summary["test_accuracy"].dump(), "\n")),
                HasSubstr(absl::StrCat("test loss ", summary["test_loss"].dump(), "\n")),
                HasSubstr("\nparameters_xxh3 " + summary["parameters_xxh3"].get<std::string>())));
    }
  }
}

TEST_F(ModelTest, WithCodecsTheSummaryIsOfTheExactParametersInTheFile) {
  ASSERT_EQ(Run({"--steps=60", "--output=" + model(), "--push_codec=topk:0.05",
                 "--pull_codec=bfloat16", "--field=codec.min_bytes=0"}),
            0)
      << processes_->Log("run");
  const nlohmann::json summary = Summary();
  EXPECT_GT(summary["push_ratio"], 9);
  EXPECT_GT(summary["pull_ratio"], 1.9);
  ASSERT_EQ(Capstan({"evaluate", model()}), 0) << processes_->Log("evaluate");
  EXPECT_THAT(
      processes_->Log("evaluate"),
      AllOf(HasSubstr(absl::StrCat("test accuracy ", summary["test_accuracy"].dump(), "\n")),
            HasSubstr("\nparameters_xxh3 " + summary["parameters_xxh3"].get<std::string>())));
}

TEST_F(ModelTest, EvaluateTakesTheJobsOwnDataAndModel) {
  const std::string job = "--job=deploy/jobs/agaricus.textproto";
  ASSERT_EQ(Run({job, "--output=" + model()}), 0) << processes_->Log("run");
  ASSERT_EQ(Capstan({"evaluate", model(), job}), 0) << processes_->Log("evaluate");
  EXPECT_THAT(processes_->Log("evaluate"),
              HasSubstr(absl::StrCat("test accuracy ", Summary()["test_accuracy"].dump(), "\n")));
  EXPECT_EQ(Capstan({"evaluate", model(), "--model=replay"}), 1);
  EXPECT_THAT(processes_->Log("evaluate"), HasSubstr("expected a model that computes"));
}

TEST_F(ModelTest, AJobBeginsWithAModelWhateverItsServers) {
  ASSERT_EQ(Run({"--steps=60", "--output=" + model()}), 0) << processes_->Log("run");
  const std::string hash = Summary()["parameters_xxh3"];
  // The smallest learning rate changes nothing.
  ASSERT_EQ(Run({"--steps=1", "--initial=" + model(), "--optimizer=sgd", "--learning_rate=2e-38",
                 "--num_servers=3", "--slice_bytes=4096"}),
            0)
      << processes_->Log("run");
  EXPECT_EQ(Summary()["parameters_xxh3"], hash);
}

// The bytes of all tensors in a model's file, by name.
std::map<std::string, std::string> TensorsIn(const std::string& path) {
  const OpenFile file = OpenFile::Open(path, O_RDONLY).value();
  const Safetensors header = ReadSafetensorsHeader(file).value();
  std::map<std::string, std::string> tensors;
  for (const Safetensors::Tensor& tensor : header.tensors) {
    std::string& bytes = tensors[tensor.name];
    bytes.resize(tensor.bytes);
    EXPECT_TRUE(file.ReadAt(tensor.offset, bytes.data(), tensor.bytes).ok());
  }
  return tensors;
}

TEST_F(ModelTest, TheOptimizersStateIsThatOfTheCheckpointAtTheSameStep) {
  const std::string checkpoints = processes_->path("checkpoints");
  const std::string exported = processes_->path("exported.safetensors");
  ASSERT_EQ(Run({"--steps=60", "--optimizer=adam", "--learning_rate=0.001", "--num_servers=3",
                 "--slice_bytes=4096", "--output=" + model(), "--output_optimizer_state",
                 "--checkpoint_dir=" + checkpoints, "--checkpoint_steps=60"}),
            0)
      << processes_->Log("run");
  ASSERT_EQ(Capstan({"export", "--checkpoint=" + checkpoints, "--output=" + exported,
                     "--optimizer_state"}),
            0)
      << processes_->Log("export");
  const std::map<std::string, std::string> tensors = TensorsIn(model());
  EXPECT_EQ(tensors, TensorsIn(exported));
  EXPECT_EQ(tensors.size(), 6u * 4) << "each with two moments and a step";
  const float steps = 60;
  EXPECT_EQ(tensors.at("optimizer.fc1.bias.step"),
            std::string(reinterpret_cast<const char*>(&steps), sizeof(steps)));
  ASSERT_EQ(Capstan({"evaluate", exported}), 0) << processes_->Log("evaluate");
  EXPECT_THAT(processes_->Log("evaluate"),
              HasSubstr("parameters_xxh3 " + Summary()["parameters_xxh3"].get<std::string>()));
}

TEST_F(ModelTest, AJobBeginsWithTheOptimizersStateIfItIsWanted) {
  const std::vector<std::string> adam = {"--steps=3", "--optimizer=adam"};
  const auto run = [&](std::vector<std::string> flags) {
    flags.insert(flags.end(), adam.begin(), adam.end());
    return Run(flags);
  };
  ASSERT_EQ(run({"--output=" + model(), "--output_optimizer_state"}), 0) << processes_->Log("run");
  const std::string initial = "--initial=" + model(), second = processes_->path("second");
  ASSERT_EQ(run({initial, "--initial_optimizer_state", "--output=" + second,
                 "--output_optimizer_state", "--num_servers=3"}),
            0)
      << processes_->Log("run");
  const float steps = 6;
  EXPECT_EQ(TensorsIn(second).at("optimizer.fc3.weight.step"),
            std::string(reinterpret_cast<const char*>(&steps), sizeof(steps)));
  const std::string with_state = Summary()["parameters_xxh3"];
  ASSERT_EQ(run({initial}), 0) << processes_->Log("run");
  EXPECT_NE(Summary()["parameters_xxh3"], with_state);
  EXPECT_THAT(ReadFile(processes_->path("run-dir/server-0.log")),
              HasSubstr("has the optimizer's state, which the job leaves out"));
  EXPECT_EQ(Run({initial, "--initial_optimizer_state", "--optimizer=lion"}), 1);
  EXPECT_THAT(processes_->Log("run"),
              HasSubstr("optimizer.fc1.weight.exp_avg_sq: expected none, got [64, 128]"));
}

TEST_F(ModelTest, AModelOfAnotherShapeIsRefusedWithEachDifference) {
  ASSERT_EQ(Run({"--steps=2", "--output=" + model(), "--hidden=32"}), 0);
  EXPECT_EQ(Run({"--steps=2", "--initial=" + model(), "--hidden=16"}), 1);
  const auto names_differences =
      AllOf(HasSubstr("fc1.weight: expected [64, 16] of F32, got [64, 32] of F32"),
            HasSubstr("fc1.bias: expected [16] of F32, got [32] of F32"));
  EXPECT_THAT(processes_->Log("run"), AllOf(HasSubstr("--initial: "), names_differences));
  EXPECT_EQ(Capstan({"evaluate", model(), "--hidden=16"}), 1);
  EXPECT_THAT(processes_->Log("evaluate"), names_differences);
  EXPECT_EQ(Run({"--initial=" + processes_->path("none")}), 1);
  EXPECT_THAT(processes_->Log("run"), HasSubstr("none: expected a readable file"));
}

TEST_F(ModelTest, AModelWithANanIsRefused) {
  ASSERT_EQ(Run({"--steps=2", "--output=" + model()}), 0);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ASSERT_TRUE(ModelTables::Read(OpenFile::Open(model(), O_RDWR).value())
                  .value()
                  ->WriteValues("fc2.bias", 3, {nan})
                  .ok());
  EXPECT_EQ(Run({"--initial=" + model()}), 1);
  EXPECT_THAT(processes_->Log("run"), HasSubstr("--initial: fc2.bias holds a NaN or an infinity"));
}

TEST_F(ModelTest, AFolderThatIsNotThereEndsTheJobAtItsStart) {
  EXPECT_EQ(Run({"--epochs=100000", "--output=/no/such/folder/m.safetensors"}), 1);
  EXPECT_THAT(processes_->Log("run"), HasSubstr("/no/such/folder/m.safetensors.unfinished: "
                                                "expected a file that can be written"));
}

TEST_F(ModelTest, AServerThatDoesNotShareTheFolderSaysSoBeforeTheTraining) {
  processes_->StartCoordinator({"--output=" + model()});
  ASSERT_EQ(unlink(UnfinishedModelPath(model()).c_str()), 0);
  processes_->StartMembers(/*num_servers=*/2, /*num_workers=*/2);
  EXPECT_EQ(processes_->WaitForExit("coordinator", absl::Seconds(60)).code, 1);
  EXPECT_THAT(processes_->LastLine("coordinator"),
              HasSubstr("choose a folder that the coordinator and all servers share"));
}

TEST_F(ModelTest, AJobThatFailsLeavesTheOlderFileWhole) {
  ASSERT_EQ(Run({"--steps=2", "--output=" + model()}), 0);
  const std::string before = ReadFile(model());
  processes_->StartCoordinator(
      {"--output=" + model(), "--epochs=100000", "--lease_seconds=1.5", "--heartbeat_seconds=0.2"});
  processes_->StartMembers(/*num_servers=*/2, /*num_workers=*/2);
  ASSERT_TRUE(processes_->WaitForLog("worker-0", "] training", absl::Seconds(20)));
  EXPECT_TRUE(std::filesystem::exists(UnfinishedModelPath(model())));
  processes_->Signal("server-1", SIGKILL);
  EXPECT_EQ(processes_->WaitForExit("coordinator", absl::Seconds(60)).code, 1);
  EXPECT_EQ(ReadFile(model()), before);
  EXPECT_FALSE(std::filesystem::exists(UnfinishedModelPath(model())));
}

}  // namespace
}  // namespace capstan
