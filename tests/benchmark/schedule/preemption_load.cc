#include "tests/benchmark/schedule/preemption_load.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/exchange/payload.h"
#include "common/tensor/host_buffer.h"

namespace capstan {
namespace {

constexpr int kTriesAlone = 9;
// The least time between two tries; the most is twice as long.
constexpr absl::Duration kPause = absl::Milliseconds(20);

class Worker {
 public:
  Worker(const PreemptionLoad& load, ParameterClient* client, Scheduler* scheduler, Clock* clock)
      : load_(load),
        client_(client),
        scheduler_(scheduler),
        clock_(clock),
        random_(load.seed),
        gradient_(std::make_shared<HostBuffer>(load.slice_bytes / sizeof(float))),
        next_step_(load.queued_slices + 1) {}

  absl::StatusOr<PreemptionTimes> Run() {
    PreemptionTimes times;
    std::vector<absl::Duration> alone;
    for (int i = 0; i < kTriesAlone; ++i) alone.push_back(RoundTrip());
    std::sort(alone.begin(), alone.end());
    times.alone = alone[kTriesAlone / 2];
    for (int slice = 1; slice <= load_.queued_slices; ++slice) PushAgainAndAgain(slice);
    for (int i = 0; i < load_.tries; ++i) {
      SleepUntil(*clock_, clock_->Now() + kPause * (1 + random_.UniformFloat()));
      times.waited.push_back(RoundTrip() - times.alone);
    }
    MutexLock lock(&mu_);
    is_ending_ = true;
    while (open_ > 0) clock_->WaitUntil(mu_, changed_, absl::InfiniteFuture());
    RETURN_IF_ERROR(status_);
    return times;
  }

 private:
  // The time of the slice of layer 0, from the scheduler to the reply.
  absl::Duration RoundTrip() {
    const absl::Time begin = clock_->Now();
    bool is_answered = false;
    absl::Time end;
    Push(/*slice=*/0, /*layer=*/0, [&] {
      MutexLock lock(&mu_);
      is_answered = true;
      end = clock_->Now();
      changed_.NotifyAll();
    });
    MutexLock lock(&mu_);
    while (!is_answered) clock_->WaitUntil(mu_, changed_, absl::InfiniteFuture());
    return end - begin;
  }

  void PushAgainAndAgain(int slice) {
    {
      MutexLock lock(&mu_);
      if (is_ending_ || !status_.ok()) return;
    }
    Push(slice, /*layer=*/1, [this, slice] { PushAgainAndAgain(slice); });
  }

  void Push(int slice, int layer, absl::AnyInvocable<void()> answered) {
    {
      MutexLock lock(&mu_);
      ++open_;
    }
    Transfer transfer;
    transfer.layer = layer;
    transfer.bytes = load_.slice_bytes;
    transfer.start = [this, slice,
                      answered = std::move(answered)](absl::AnyInvocable<void()> credited) mutable {
      Exchange(slice, std::move(credited), std::move(answered));
    };
    scheduler_->Submit(std::move(transfer));
  }

  void Exchange(int slice, absl::AnyInvocable<void()> credited,
                absl::AnyInvocable<void()> answered) {
    // No other exchange of this slice is open.
    const Step step(next_step_[slice]++);
    ExchangeRequest request = load_.Job().RequestOf(/*worker=*/0, static_cast<uint32_t>(slice));
    request.purpose = DenseStep{StepPush{step, Gradient{Payload(gradient_->span(), gradient_)}}};
    client_->Exchange(std::move(request), std::move(credited),
                      [this, answered = std::move(answered)](const ExchangeReply& reply) mutable {
                        OnReply(reply.status, std::move(answered));
                      });
  }

  void OnReply(const absl::Status& status, absl::AnyInvocable<void()> answered) {
    {
      MutexLock lock(&mu_);
      if (status_.ok()) status_ = status;
    }
    answered();
    MutexLock lock(&mu_);
    --open_;
    changed_.NotifyAll();
  }

  const PreemptionLoad& load_;
  ParameterClient* const client_;
  Scheduler* const scheduler_;
  Clock* const clock_;
  Random random_;
  const std::shared_ptr<HostBuffer> gradient_;  // of every slice
  std::vector<int64_t> next_step_;              // of each slice

  Mutex mu_;
  CondVar changed_;
  int open_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_ending_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

BenchmarkJob PreemptionLoad::Job() const {
  BenchmarkJob job;
  job.slice_bytes = slice_bytes;
  job.table_bytes = slice_bytes * static_cast<uint64_t>(queued_slices + 1);
  return job;
}

absl::StatusOr<PreemptionTimes> MeasurePreemption(const PreemptionLoad& load,
                                                  ParameterClient* client, Scheduler* scheduler,
                                                  Clock* clock) {
  return Worker(load, client, scheduler, clock).Run();
}

}  // namespace capstan
