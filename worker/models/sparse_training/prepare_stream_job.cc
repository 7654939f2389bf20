#include "worker/models/sparse_training/prepare_stream_job.h"

#include <glog/logging.h>

#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/engine/cpu_device_name.h"
#include "worker/models/sparse_training/make_sparse_model.h"
#include "worker/models/sparse_training/sparse_model.h"
#include "worker/models/sparse_training/step_batches.h"
#include "worker/models/sparse_training/stream_data.h"
#include "worker/models/sparse_training/stream_trainer.h"
#include "worker/program/program_engine.h"

namespace capstan {
namespace {

// 0: the end of the samples tells.
int64_t StepsOf(const v1::JobSpec& job, const StreamData& data) {
  const v1::TrainingSpec& training = job.training();
  if (training.steps() > 0) return static_cast<int64_t>(training.steps());
  return StepsOfEpochs(training.epochs(), data.pass_samples(), job.cluster().num_workers(),
                       training.batch_size());
}

// A trainer, all that it needs, and its thread.
class StreamJob {
 public:
  StreamJob(const v1::JobSpec& job, std::unique_ptr<const StreamData> data,
            std::unique_ptr<SparseModel> model, Clock* clock)
      : data_(std::move(data)),
        model_(std::move(model)),
        engine_(EngineOptionsOf(job, *data_, *model_, clock)),
        trainer_({job, StepsOf(job, *data_), data_.get(), model_.get(), &engine_}) {}

  ~StreamJob() {
    engine_.steps().SetOutcome(absl::CancelledError("the worker ends"));
    trainer_.Cancel();
    if (thread_.joinable()) thread_.join();
  }

  ProgramEngine& engine() { return engine_; }

  // Begins to train as this worker. Called once.
  void Begin(WorkerId worker) {
    thread_ = std::thread([this, worker] {
      const absl::Status status = trainer_.Run(worker);
      // The engine itself has told what it returned.
      if (!status.ok()) engine_.steps().Fail(status);
    });
  }

 private:
  static ProgramEngine::Options EngineOptionsOf(const v1::JobSpec& job, const StreamData& data,
                                                const SparseModel& model, Clock* clock) {
    ProgramEngine::Options options;
    options.clock = clock;
    options.tables = model.tables();
    options.initial.resize(options.tables.size());
    options.steps = job.stay() ? 0 : StepsOf(job, data);
    *options.job.mutable_consistency() = job.consistency();
    options.is_replaceable = true;
    options.device = CpuDeviceName();
    return options;
  }

  const std::unique_ptr<const StreamData> data_;
  const std::unique_ptr<SparseModel> model_;
  ProgramEngine engine_;
  StreamTrainer trainer_;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<JobSetup> PrepareStreamJob(const v1::JobSpec& job, const DeviceName& device,
                                          Clock* clock) {
  if (device.is_cuda) {
    return absl::InvalidArgumentError(
        absl::StrCat("--device: expected cpu, as sparse_logistic_regression and deepfm compute on "
                     "CPUs only, got cuda:",
                     device.number, "; leave out --device"));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<const StreamData> data, StreamData::Open(job, clock));
  ASSIGN_OR_RETURN(std::unique_ptr<SparseModel> model, MakeSparseModel(job, *data));
  const int64_t steps = StepsOf(job, *data);
  const auto stream_job =
      std::make_shared<StreamJob>(job, std::move(data), std::move(model), clock);
  JobSetup setup;
  setup.engine = std::shared_ptr<Engine>(stream_job, &stream_job->engine());
  setup.steps = steps;
  // The engine keeps the whole stream job.
  setup.on_registered = [stream_job = stream_job.get()](WorkerId worker) {
    stream_job->Begin(worker);
  };
  setup.evaluate = [engine = &stream_job->engine()](Step end, ParameterStore& store,
                                                    v1::ReportResultRequest& result) {
    return engine->Evaluate(end, store, result);
  };
  return setup;
}

}  // namespace capstan
