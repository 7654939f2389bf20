#include "tests/cluster/local_cluster.h"

#include <glog/logging.h>

#include <atomic>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "common/base/background_threads.h"
#include "common/base/one_shot.h"
#include "common/job/job_properties.h"
#include "common/routing/routing_table.h"
#include "server/checkpoint/manifest.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/job_files.h"
#include "server/service/parameter_server.h"
#include "tests/transport/faulty_endpoint.h"
#include "worker/runtime/job_setup.h"
#include "worker/runtime/worker.h"

namespace capstan {
namespace {

// Adds the faults of a connection to a common count when the connection ends.
class CountingFaultyEndpoint : public FaultyEndpoint {
 public:
  CountingFaultyEndpoint(Options options, std::unique_ptr<ParameterEndpoint> inner,
                         std::atomic<int64_t>* count)
      : FaultyEndpoint(options, std::move(inner)), count_(count) {}
  ~CountingFaultyEndpoint() override {
    const Counts faults = counts();
    *count_ +=
        faults.dropped_requests + faults.dropped_replies + faults.duplicated + faults.delayed;
  }

 private:
  std::atomic<int64_t>* const count_;
};

std::unique_ptr<ParameterEndpoint> Connect(ClusterTransport& transport, Clock& clock,
                                           const std::string& address, const ClusterFaults& faults,
                                           uint64_t seed, std::atomic<int64_t>* count) {
  FaultyEndpoint::Options faulty;
  faulty.clock = &clock;
  faulty.seed = seed;
  faulty.drop = faults.drop;
  faulty.duplicate = faults.duplicate;
  faulty.delay = faults.delay;
  faulty.max_delay = absl::Milliseconds(5);
  return std::make_unique<CountingFaultyEndpoint>(faulty, transport.Connect(address), count);
}

// Sets Worker::Options::prepare, and perhaps its rank.
using WorkerPreparer = std::function<void(uint32_t worker, Worker::Options& options)>;

ClusterResult Run(const v1::JobSpec& job, ClusterTransport& transport, Clock& clock,
                  const ClusterFaults& faults, const WorkerPreparer& prepare,
                  const std::function<void(CoordinatorEndpoint&)>& on_start) {
  const uint32_t num_servers = job.cluster().num_servers();
  const uint32_t num_workers = job.cluster().num_workers();
  ClusterResult result;
  result.servers.resize(num_servers);
  result.workers.resize(num_workers);
  std::atomic<int64_t> faults_injected = 0;
  {
    Coordinator::Options options;
    options.job = job;
    options.job_fingerprint = JobFingerprint(job);
    options.folder_token = 5;
    const absl::Status opened = OpenJobFiles(/*takes_over=*/false, options);
    CHECK(opened.ok()) << opened;
    OneShot<JobOutcome> outcome(&clock);
    // A disk may be slow. The clock's thread, which runs the coordinator's alarm, must not wait for
    // it.
    BackgroundThreads files(&clock, /*num_threads=*/1);
    options.run_in_background = [&files](absl::AnyInvocable<void()> work) {
      files.Add(std::move(work));
    };
    Coordinator coordinator(std::move(options), clock);
    const auto stop_files = absl::MakeCleanup([&files] { files.Stop(); });
    coordinator.OnEnd([&outcome](JobOutcome ended) { outcome.Set(std::move(ended)); });

    if (on_start != nullptr) on_start(coordinator);

    std::vector<std::unique_ptr<ParameterServer>> servers;
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < num_servers; ++i) {
      ParameterServer::Options server;
      server.clock = &clock;
      server.coordinator = &coordinator;
      server.incarnation = Incarnation(100 + i);
      server.host = absl::StrCat("server ", i);
      servers.push_back(std::make_unique<ParameterServer>(server));
      threads.emplace_back([&result, i, started = servers.back().get(),
                            address = transport.Listen(servers.back().get())] {
        result.servers[i] =
            started->Run([&address](const v1::JobSpec&) { return ServerAddress{address}; });
      });
    }
    for (uint32_t i = 0; i < num_workers; ++i) {
      threads.emplace_back([&, i] {
        Worker::Options worker;
        worker.clock = &clock;
        worker.coordinator = &coordinator;
        worker.incarnation = Incarnation(200 + i);
        worker.host = absl::StrCat("worker ", i);
        worker.connect = [&, i](
                             const v1::JobSpec&, ServerId server,
                             const ServerAddress& address) -> std::unique_ptr<ParameterEndpoint> {
          return Connect(transport, clock, address.grpc, faults, 1 + i * 1000 + server.value(),
                         &faults_injected);
        };
        prepare(i, worker);
        result.workers[i] = Worker(std::move(worker)).Run();
        // Nobody misses an unregistered member, and an ended job ignores its report.
        if (!result.workers[i].ok()) {
          coordinator.Fail(absl::StrCat("worker thread ", i, ": ", result.workers[i].message()));
        }
      });
    }
    result.outcome = outcome.Wait();
    for (std::thread& thread : threads) thread.join();
    transport.StopListening();
  }
  result.faults_injected = faults_injected;
  return result;
}

}  // namespace

ClusterResult RunCluster(const v1::JobSpec& job, ClusterTransport& transport, Clock& clock,
                         const ClusterFaults& faults, const EngineFactory& make_engine,
                         const std::function<void(CoordinatorEndpoint&)>& on_start) {
  const auto prepare = [&make_engine](uint32_t /*worker*/, Worker::Options& options) {
    options.prepare = JobPreparerOf(make_engine);
  };
  return Run(job, transport, clock, faults, prepare, on_start);
}

ClusterResult RunRankedCluster(const v1::JobSpec& job, ClusterTransport& transport, Clock& clock,
                               const ClusterFaults& faults,
                               const std::function<JobPreparer(uint32_t rank)>& prepare) {
  const auto prepare_ranked = [&prepare](uint32_t worker, Worker::Options& options) {
    options.rank = worker;
    options.prepare = prepare(worker);
  };
  return Run(job, transport, clock, faults, prepare_ranked, /*on_start=*/nullptr);
}

std::string FirstCheckpoint(const std::string& dir) {
  std::string first;
  int64_t first_step = std::numeric_limits<int64_t>::max();
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    if (!entry.is_directory()) continue;
    const auto manifest = ReadManifest(entry.path());
    if (!manifest.ok() || manifest->step() >= first_step) continue;
    first_step = manifest->step();
    first = entry.path();
  }
  LOG_IF(FATAL, first.empty()) << "no checkpoint in " << dir;
  return first;
}

std::string CheckpointOfStep(const std::string& dir, int64_t step) {
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    if (!entry.is_directory()) continue;
    const auto manifest = ReadManifest(entry.path());
    if (manifest.ok() && manifest->step() == step) return entry.path();
  }
  LOG(FATAL) << "no checkpoint of step " << step << " in " << dir;
}

}  // namespace capstan
