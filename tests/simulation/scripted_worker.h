#ifndef TESTS_SIMULATION_SCRIPTED_WORKER_H_
#define TESTS_SIMULATION_SCRIPTED_WORKER_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/membership/coordinator_endpoint.h"
#include "common/membership/view_watch.h"
#include "proto/coordinator_service.pb.h"
#include "tests/simulation/scripted_training.h"

namespace capstan {

// A worker whose model is a script: it registers, pulls, takes its time, pushes the test value of
// each step, and evaluates when asked to, with the real client, store, scheduler and membership of
// a worker. It may take a dead worker's place. Run by one thread, once.
class ScriptedWorker {
 public:
  struct Options {
    Clock* clock = nullptr;                      // All of these are required;
    CoordinatorEndpoint* coordinator = nullptr;  // what is pointed to outlives the worker.
    Incarnation incarnation;
    ScriptedTraining::Script script;
    ParameterClient::EndpointFactory connect;
    // How often a worker that comes late, while all places are taken, asks again.
    absl::Duration ask_again_after = absl::Milliseconds(10);
  };

  explicit ScriptedWorker(Options options) : options_(std::move(options)), watch_(options_.clock) {}

  // Works until the job has ended. The errors of Worker::Run.
  absl::Status Run();

 private:
  absl::StatusOr<uint32_t> Register();
  absl::Status RunRegistered(const v1::GetJobReply& job, uint32_t id);
  absl::Status TrainAndEvaluate(const v1::GetJobReply& job, uint32_t id,
                                absl::AnyInvocable<void()> report_now);
  absl::Status EvaluateAndReport(uint32_t id);
  void OnView(const v1::JobView& view);
  void OnLost(const absl::Status& lost);
  std::shared_ptr<ScriptedTraining> CurrentTraining();

  Options options_;
  ViewWatch watch_;

  Mutex mu_;
  std::shared_ptr<ScriptedTraining> training_ ABSL_GUARDED_BY(mu_);
};

}  // namespace capstan

#endif  // TESTS_SIMULATION_SCRIPTED_WORKER_H_
