// Real runs are traced. Their merged trace must be consistent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/job_processes.h"
#include "tests/integration/trace_file.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kSteps = 12;
constexpr int kWorkers = 2;
constexpr int kLayers = 16;  // of VGG16
// The first fully connected layer. It has three quarters of all parameters.
constexpr int kLargeLayer = 13;
// Tolerance for two clocks of one machine, besides their stated uncertainty.
constexpr double kSlackUs = 1000;

class TraceTest : public testing::Test {
 protected:
  TraceTest() {
    std::string folder = testing::TempDir() + "/capstan-XXXXXX";
    processes_ = std::make_unique<JobProcesses>(mkdtemp(folder.data()));
  }

  std::string run_dir() const { return processes_->path("run-dir"); }

  // In this job, communication takes longer than computation.
  std::vector<std::string> RunFlags(int steps, const std::string& schedule) const {
    return {"run",
            "--model=replay",
            "--field=model.replay.layers=vgg16",
            "--field=model.replay.scale=8",
            "--field=model.replay.compute_seconds=0.01",
            "--slice_bytes=512K",
            "--field=scheduler.credit_bytes=512K",
            "--num_servers=2",
            absl::StrCat("--num_workers=", kWorkers),
            absl::StrCat("--steps=", steps),
            "--schedule=" + schedule,
            "--trace",
            "--run_dir=" + run_dir()};
  }

  // The exit code of `capstan` with these arguments; its log has the name of the command.
  int Capstan(const std::vector<std::string>& args) {
    processes_->Start(args[0], "deploy/cli/capstan", args);
    return processes_->WaitForExit(args[0], absl::Seconds(100)).code;
  }

  TraceFile RunTraced(const std::string& schedule) {
    EXPECT_EQ(Capstan(RunFlags(kSteps, schedule)), 0) << processes_->Log("run");
    EXPECT_EQ(Capstan({"trace", run_dir()}), 0) << processes_->Log("trace");
    return ReadTrace(run_dir() + "/trace.json");
  }

  std::unique_ptr<JobProcesses> processes_;
};

bool IsWorker(const std::string& process) { return absl::StartsWith(process, "worker "); }

void ExpectPhasesFollow(const TracedExchange& exchange) {
  double end = exchange.begin;
  for (const TracedSpan& phase : exchange.phases) {
    EXPECT_EQ(phase.begin, end) << exchange.name << " " << phase.name;
    end = phase.end;
  }
  EXPECT_EQ(end, exchange.end) << exchange.name;
}

std::vector<std::string> PhaseNames(const TracedExchange& exchange) {
  std::vector<std::string> names;
  for (const TracedSpan& phase : exchange.phases) names.push_back(phase.name);
  return names;
}

// Equal at worker and server.
using ExchangeKey = std::tuple<double, std::string, double, double, double>;

ExchangeKey KeyOf(double worker, const TracedExchange& exchange) {
  return {worker, exchange.name, exchange.args.at("slice"), exchange.args.at("push_step"),
          exchange.args.at("pull_step")};
}

// The phases of a pull after its arrival at a server.
void ExpectServerPhases(const TracedExchange& exchange) {
  std::vector<std::string> phases = PhaseNames(exchange);
  EXPECT_EQ(phases[0], exchange.args.at("push_step") < 0 ? "read" : "apply");
  phases.erase(phases.begin());
  if (!phases.empty() && phases[0] == "parked") phases.erase(phases.begin());
  EXPECT_THAT(phases, ElementsAre("reply queue", "reply send"));
}

// Each exchange at a server lies within the same exchange at its worker. Only the end of "reply
// send" is later: the server then learns of the arrival.
void ExpectServersWithinWorkers(const TraceFile& trace) {
  std::map<ExchangeKey, const TracedExchange*> of_workers;
  for (const TracedExchange& exchange : trace.exchanges) {
    if (!IsWorker(exchange.process)) continue;
    const double worker = std::stod(exchange.process.substr(7));
    EXPECT_TRUE(of_workers.emplace(KeyOf(worker, exchange), &exchange).second) << exchange.name;
  }
  size_t count = 0;
  for (const TracedExchange& exchange : trace.exchanges) {
    if (IsWorker(exchange.process)) continue;
    ++count;
    const auto asked = of_workers.find(KeyOf(exchange.args.at("worker"), exchange));
    ASSERT_NE(asked, of_workers.end()) << exchange.process << " " << exchange.name;
    const double slack = kSlackUs + trace.clock_uncertainty.at(exchange.process) +
                         trace.clock_uncertainty.at(asked->second->process);
    EXPECT_GE(exchange.begin, asked->second->begin - slack) << exchange.name;
    EXPECT_LE(exchange.phases.back().begin, asked->second->end + slack) << exchange.name;
  }
  EXPECT_GE(count, of_workers.size());
}

double SendBegin(const TracedExchange& exchange) { return exchange.phases.at(1).begin; }
double ReplyEnd(const TracedExchange& exchange) { return exchange.end; }

// Counts steps of all workers with layer 0 first: the latest `time` of its exchanges is before the
// latest `time` of the layers from the large one on.
int StepsWithFirstLayerFirst(const TraceFile& trace, double (*time)(const TracedExchange&)) {
  std::map<std::pair<std::string, double>, std::pair<double, double>> latest;  // first, large
  for (const TracedExchange& exchange : trace.exchanges) {
    if (!IsWorker(exchange.process) || exchange.args.at("push_step") < 0) continue;
    auto& [first, large] = latest[{exchange.process, exchange.args.at("push_step")}];
    if (exchange.args.at("layer") == 0) first = std::max(first, time(exchange));
    if (exchange.args.at("layer") >= kLargeLayer) large = std::max(large, time(exchange));
  }
  EXPECT_EQ(latest.size(), kWorkers * kSteps);
  return static_cast<int>(std::count_if(latest.begin(), latest.end(), [](const auto& entry) {
    return entry.second.first < entry.second.second;
  }));
}

TEST_F(TraceTest, APrioritisedRunHoldsTogether) {
  const TraceFile trace = RunTraced("priority");
  EXPECT_EQ(trace.clock_uncertainty.size(), kWorkers + 2u);
  for (const auto& [track, spans] : trace.tracks) ExpectNested(spans, track);
  std::map<std::string, int> count;  // of spans, by their first word
  for (const TracedSpan& span : trace.tracks.at("worker 1, training")) {
    ++count[span.name.substr(0, span.name.find(' '))];
  }
  EXPECT_EQ(count, (std::map<std::string, int>{{"step", kSteps},
                                               {"wait", kSteps * kLayers},
                                               {"forward", kSteps * kLayers},
                                               {"backward", kSteps * kLayers},
                                               {"push", kSteps * kLayers}}));
  for (const TracedExchange& exchange : trace.exchanges) {
    ExpectPhasesFollow(exchange);
    if (IsWorker(exchange.process)) {
      EXPECT_THAT(PhaseNames(exchange), ElementsAre("queue", "send", "server and reply"));
    } else {
      ExpectServerPhases(exchange);
    }
  }
  ExpectServersWithinWorkers(trace);
  EXPECT_GT(StepsWithFirstLayerFirst(trace, SendBegin), kWorkers * kSteps / 2);
  EXPECT_GT(StepsWithFirstLayerFirst(trace, ReplyEnd), kWorkers * kSteps / 2);
}

TEST_F(TraceTest, CodecsHaveTheirPhasesAndTheirBytes) {
  std::vector<std::string> flags = RunFlags(kSteps, "priority");
  flags.insert(flags.end(), {"--push_codec=int8", "--pull_codec=bfloat16"});
  ASSERT_EQ(Capstan(flags), 0) << processes_->Log("run");
  ASSERT_EQ(Capstan({"trace", run_dir()}), 0) << processes_->Log("trace");
  int encoded = 0, pulled = 0, plain = 0;
  for (const TracedExchange& exchange : ReadTrace(run_dir() + "/trace.json").exchanges) {
    if (!IsWorker(exchange.process)) continue;
    ExpectPhasesFollow(exchange);
    const double bytes = exchange.args.at("bytes_float32");
    const std::vector<std::string> phases = PhaseNames(exchange);
    if (phases[1] == "encode") {
      ++encoded;
      EXPECT_THAT(phases,
                  ElementsAre("queue", "encode", "queue", "send", "server and reply", "decode"));
      // A byte for each value, and a scale for each 256 of them.
      EXPECT_NEAR(exchange.args.at("bytes_pushed"), bytes / 4 * (1 + 4.0 / 256), 4);
      EXPECT_EQ(exchange.args.at("bytes_pulled"), bytes / 2);
    } else if (phases.back() == "decode") {
      ++pulled;
      EXPECT_EQ(exchange.args.at("push_step"), -1);
    } else {
      ++plain;
      EXPECT_EQ(exchange.args.at("bytes_pulled"), bytes);
    }
  }
  EXPECT_GT(encoded, kWorkers * kSteps * kLayers / 2);
  // Each worker also pulls all slices once before its first step. The evaluator pulls float32.
  EXPECT_EQ(encoded, pulled * kSteps);
  EXPECT_GT(plain, 0) << "small tables";
}

TEST_F(TraceTest, WithoutPriorityTheFirstLayerIsSentLast) {
  const TraceFile trace = RunTraced("slice_fifo");
  EXPECT_EQ(StepsWithFirstLayerFirst(trace, SendBegin), 0);
  RecordProperty("replies_of_first_layer_first", StepsWithFirstLayerFirst(trace, ReplyEnd));
}

TEST_F(TraceTest, TheTraceOfARunThatWasKilledCanBeMerged) {
  processes_->Start("run", "deploy/cli/capstan", RunFlags(/*steps=*/100'000, "priority"));
  const std::string traced = run_dir() + "/worker-1.trace.json";
  std::error_code error;
  ASSERT_TRUE(processes_->WaitUntil(absl::Seconds(60), [&] {
    return std::filesystem::exists(traced) && std::filesystem::file_size(traced, error) > 100'000;
  })) << processes_->Log("run");
  processes_->Signal("run", SIGKILL);  // the kernel kills the others, too
  EXPECT_EQ(processes_->WaitForExit("run", absl::Seconds(60)).signal, SIGKILL);
  ASSERT_EQ(Capstan({"trace", run_dir()}), 0) << processes_->Log("trace");
  EXPECT_THAT(processes_->Log("trace"), HasSubstr("the process was killed or still runs"));
  EXPECT_GT(ReadTrace(run_dir() + "/trace.json").exchanges.size(), 100u);
}

}  // namespace
}  // namespace capstan
