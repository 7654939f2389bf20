#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/real_clock.h"
#include "common/base/status_macros.h"
#include "tests/benchmark/common/benchmark_job.h"
#include "tests/benchmark/common/benchmark_transport.h"
#include "tests/benchmark/step/bsp_step_load.h"
#include "tests/process/child_results.h"
#include "tests/process/forked_process.h"

namespace capstan {
namespace {

using Parent = ForkedProcess::Parent;

constexpr absl::Duration kTime = absl::Seconds(3);
constexpr double kMostOfACore = 0.01;

BspStepLoad SmallLoad() {
  BspStepLoad load;
  load.bytes = 4 << 20;
  load.num_workers = 1;
  load.steps = 2;
  return load;
}

absl::Status Serve(const BenchmarkTransport& transport, Parent& parent) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ShardHost> host, SmallLoad().Job().MakeHost(/*server=*/0));
  return transport.Serve(host.get(), parent);
}

// Does some steps. Then does nothing, and stays connected.
absl::Status Work(const BenchmarkTransport& transport, const std::vector<std::string>& addresses,
                  Parent& parent) {
  RealClock clock;
  const ServerConnector connect = transport.Connector(&clock);
  const auto client = SmallLoad().Job().MakeClient(addresses, connect, &clock);
  RETURN_IF_ERROR(RunBspSteps(
                      SmallLoad(), /*worker=*/0, client.get(), [] {}, &clock)
                      .status());
  parent.WriteLine("has nothing to do");
  parent.ReadLine();
  return absl::OkStatus();
}

class IdleCpuTest : public testing::TestWithParam<std::string> {};

TEST_P(IdleCpuTest, ConnectedProcessesThatDoNothingUseNoCpu) {
  BenchmarkTransport transport;
  transport.transport = GetParam();
  std::vector<std::unique_ptr<ForkedProcess>> servers, workers;
  servers.push_back(StartChild([&](Parent& parent) { return Serve(transport, parent); }));
  const auto addresses = ChildResults(servers);
  ASSERT_TRUE(addresses.ok()) << addresses.status();
  workers.push_back(
      StartChild([&](Parent& parent) { return Work(transport, *addresses, parent); }));
  ASSERT_TRUE(ChildResults(workers).ok());

  const absl::Duration server_before = servers[0]->CpuTime();
  const absl::Duration worker_before = workers[0]->CpuTime();
  absl::SleepFor(kTime);
  EXPECT_LT(absl::FDivDuration(servers[0]->CpuTime() - server_before, kTime), kMostOfACore);
  EXPECT_LT(absl::FDivDuration(workers[0]->CpuTime() - worker_before, kTime), kMostOfACore);
}

INSTANTIATE_TEST_SUITE_P(Transports, IdleCpuTest, testing::Values("grpc", "ucx"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace capstan
