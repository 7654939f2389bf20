#include "tests/simulation/real_run.h"

#include <glog/logging.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/one_shot.h"
#include "common/base/real_clock.h"
#include "common/routing/routing_table.h"
#include "server/coordinator/coordinator.h"
#include "server/service/parameter_server.h"
#include "tests/cluster/grpc_cluster_transport.h"
#include "tests/simulation/scripted_setup.h"
#include "worker/runtime/worker.h"

namespace capstan {
namespace {

Worker::Options WorkerOptions(const Scenario& scenario, uint32_t index, Clock* clock,
                              Coordinator* coordinator, ClusterTransport* transport) {
  Worker::Options options;
  options.clock = clock;
  options.coordinator = coordinator;
  options.incarnation = Incarnation(200 + index);
  options.prepare = ScriptedJobPreparer(scenario, index);
  options.connect = [transport](const v1::JobSpec&, ServerId, const ServerAddress& address) {
    return transport->Connect(address.grpc);
  };
  return options;
}

}  // namespace

absl::Duration MeasureStepTime(const Workload& workload) {
  const Scenario scenario = ScenarioOf(workload, SimulatedNetwork::Options());
  RealClock clock;
  GrpcClusterTransport transport(&clock);
  Coordinator::Options options;
  options.job = scenario.job;
  options.job_fingerprint = 1;
  Coordinator coordinator(options, clock);
  OneShot<JobOutcome> outcome(&clock);
  coordinator.OnEnd([&outcome](JobOutcome ended) { outcome.Set(std::move(ended)); });

  std::vector<std::unique_ptr<ParameterServer>> servers;
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < workload.servers; ++i) {
    ParameterServer::Options server;
    server.clock = &clock;
    server.coordinator = &coordinator;
    server.incarnation = Incarnation(100 + i);
    servers.push_back(std::make_unique<ParameterServer>(server));
    threads.emplace_back(
        [started = servers.back().get(), address = transport.Listen(servers.back().get())] {
          const absl::Status status =
              started->Run([&address](const v1::JobSpec&) { return ServerAddress{address}; });
          CHECK(status.ok()) << status;
        });
  }
  for (uint32_t i = 0; i < workload.workers; ++i) {
    threads.emplace_back([&, i] {
      const absl::Status status =
          Worker(WorkerOptions(scenario, i, &clock, &coordinator, &transport)).Run();
      CHECK(status.ok()) << status;
    });
  }
  const JobOutcome ended = outcome.Wait();
  for (std::thread& thread : threads) thread.join();
  transport.StopListening();
  CHECK(ended.status.ok()) << ended.status;
  return ended.training_time / workload.steps;
}

}  // namespace capstan
