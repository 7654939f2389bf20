#ifndef WORKER_RUNTIME_TRAINING_SESSION_H_
#define WORKER_RUNTIME_TRAINING_SESSION_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/end_request.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/membership/coordinator_endpoint.h"
#include "common/membership/view_watch.h"
#include "common/metrics/metrics_sources.h"
#include "common/scheduler/scheduler.h"
#include "common/trace/tracer.h"
#include "proto/coordinator_service.pb.h"
#include "worker/client/parameter_client.h"
#include "worker/client/parameter_store.h"
#include "worker/runtime/job_setup.h"
#include "worker/runtime/schedule_follower.h"
#include "worker/runtime/training_loop.h"

namespace capstan {

// The life of a registered worker: waits for the start, trains, evaluates on request, waits for the
// end. Run by one thread, once.
class TrainingSession {
 public:
  struct Options {
    // Required, up to `connect`. Every pointer outlives the session.
    Clock* clock = nullptr;
    CoordinatorEndpoint* coordinator = nullptr;
    WorkerId worker;
    Incarnation incarnation;
    uint32_t part = 0;  // above 0: as Worker::PartOf::part
    const v1::GetJobReply* job = nullptr;
    JobSetup* setup = nullptr;
    ParameterClient::EndpointFactory connect;
    // Wraps all exchanges, as a recorder does; null: nothing does.
    absl::AnyInvocable<std::unique_ptr<ParameterEndpoint>(std::unique_ptr<ParameterEndpoint>)> wrap;
    absl::AnyInvocable<void(const v1::JobView&)> on_view;  // null: nobody else needs the views
    std::function<void()> on_training = [] {};             // before the first step
    std::function<std::string()> transport = [] { return ""; };  // v1::Progress::transport
    // ParameterClient::Options::coordinator_last_away.
    std::function<absl::Time()> coordinator_last_away = [] { return absl::InfinitePast(); };
    Tracer* tracer = nullptr;           // null: nothing is traced
    MetricsSources* metrics = nullptr;  // null: nobody asks for counts
    const EndRequest* end = nullptr;    // null: nobody asks it to leave
  };

  explicit TrainingSession(Options options);

  // The errors of Worker::Run. The coordinator has not been told of them. Once the worker is asked
  // to end, it leaves between two steps, unless it has done the last one.
  absl::Status Run();

 private:
  // Exists from the start of the training on. Destroyed in reverse order.
  struct Training {
    // No transfer starts while `exchanges` is destroyed, which returns the credit of open ones.
    ~Training() {
      if (store != nullptr) store->CancelPushes();
      if (scheduler != nullptr) scheduler->Close();
    }

    std::unique_ptr<Scheduler> scheduler;
    std::unique_ptr<ParameterStore> store;
    ParameterClient* client = nullptr;             // part of `exchanges`
    std::unique_ptr<ParameterEndpoint> exchanges;  // the client, perhaps wrapped
    std::unique_ptr<ScheduleFollower> schedule;
    std::unique_ptr<TrainingLoop> loop;
  };

  // Asked to end, the worker leaves at any time, unless it trains or has done its steps.
  enum class Presence { kIdle, kTraining, kDone, kLeaving };

  bool IsAskedToEnd() const { return options_.end != nullptr && options_.end->is_asked(); }
  // Whether the worker is leaving, or now begins to because it is asked to end.
  bool IsLeaving();
  // False: it is leaving.
  bool BeginTraining();
  // In a job that stays, a worker leaves once it has done its steps.
  void EndTraining();
  bool HasDoneItsSteps();
  int64_t FirstStep(const v1::JobView& view) const;  // of this worker
  // capstan::EndStep for this worker.
  int64_t EndStepOf(const v1::JobView& view) const;
  // The coordinator has taken this process out of the job.
  bool IsGone(const v1::JobView& view) const;
  // As ViewWatch::WaitFor. CANCELLED once the worker has left.
  absl::StatusOr<v1::JobView> WaitFor(absl::FunctionRef<bool(const v1::JobView&)> is_awaited);
  // Adds what the coordinator must know to a heartbeat.
  void Report(v1::HeartbeatRequest& request);
  void OnView(const v1::JobView& view);
  void OnLost(const absl::Status& lost);
  v1::Progress CurrentProgress();
  void AddMetrics(MetricsPage& page);
  v1::AutoCodecs AutoCodecsOfJob();
  // Null before the training starts.
  std::shared_ptr<Training> CurrentTraining();

  absl::Status TrainAndEvaluate(absl::FunctionRef<void()> report_now);
  // All steps, or those before the worker is asked to end.
  absl::Status Train(absl::FunctionRef<void()> report_now);
  void MeasureLinksTo(const v1::JobView& view);
  absl::StatusOr<std::unique_ptr<Training>> MakeTraining(const v1::JobView& view,
                                                         absl::FunctionRef<void()> report_now);
  // The parts of MakeTraining. They use the parts before; MakeExchanges uses up options_.connect.
  void MakeExchanges(const v1::JobView& view, Training& training);
  absl::StatusOr<ParameterStore::Options> StoreOptions(const v1::JobView& view,
                                                       const Training& training);
  TrainingLoop::Options LoopOptions(const v1::JobView& view, const Training& training);
  absl::Status EvaluateAndReport();
  bool HasAllTables() const;
  // The reason for a failed exchange or report: the job's own, if the job has failed. OK if the job
  // is done.
  absl::Status BestReason(const absl::Status& status);

  Options options_;
  ViewWatch watch_;

  Mutex mu_;
  Presence presence_ ABSL_GUARDED_BY(mu_) = Presence::kIdle;
  std::shared_ptr<Training> training_ ABSL_GUARDED_BY(mu_);
  std::optional<v1::LinkMeasurement> links_ ABSL_GUARDED_BY(mu_);
  v1::AutoCodecs auto_codecs_ ABSL_GUARDED_BY(mu_);  // of the latest view

  MetricsSources::Registration metrics_;  // uses all above
};

}  // namespace capstan

#endif  // WORKER_RUNTIME_TRAINING_SESSION_H_
