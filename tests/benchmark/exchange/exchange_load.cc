#include "tests/benchmark/exchange/exchange_load.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/exchange/payload.h"
#include "common/scheduler/scheduler.h"
#include "common/scheduler/transfer_queue.h"
#include "common/tensor/buffer_pool.h"

namespace capstan {
namespace {

constexpr size_t kMostLatencies = 1 << 20;
constexpr float kGradient = 1e-6f;  // of every element

// One part of the table. The worker exchanges it again and again.
struct Lane {
  std::shared_ptr<uint8_t> gradient;
  std::shared_ptr<uint8_t> values;
  Step step = Step(0);
  std::vector<uint64_t> versions;  // of each slice's values
  absl::Time sent;
  std::atomic<uint32_t> open_slices = 0;
};

class Worker {
 public:
  Worker(const ExchangeLoad& load, int worker, ParameterClient* client, absl::Time begin,
         absl::Time end, Clock* clock)
      : load_(load),
        job_(load.Job()),
        worker_(worker),
        client_(client),
        begin_(begin),
        end_(end),
        clock_(clock),
        scheduler_(load.credit_bytes, std::make_unique<FifoQueue>(), clock),
        lanes_(load.inflight) {
    for (Lane& lane : lanes_) {
      for (std::shared_ptr<uint8_t>* memory : {&lane.gradient, &lane.values}) {
        *memory = buffers_.Take(load.bytes);
        std::fill_n(reinterpret_cast<float*>(memory->get()), load.bytes / sizeof(float), kGradient);
      }
      lane.versions.resize(load.slices());
    }
  }

  absl::StatusOr<ExchangeCount> Run() {
    {
      MutexLock lock(&mu_);
      open_ = load_.inflight;
    }
    for (int lane = 0; lane < load_.inflight; ++lane) Send(lane, clock_->Now());
    MutexLock lock(&mu_);
    while (open_ > 0) clock_->WaitUntil(mu_, ended_, absl::InfiniteFuture());
    RETURN_IF_ERROR(status_);
    RETURN_IF_ERROR(CheckValues());
    return std::move(count_);
  }

 private:
  // Call when no exchange is open.
  absl::Status CheckValues() const {
    uint64_t most_pushes = 0;
    for (const Lane& lane : lanes_) {
      most_pushes = std::max(most_pushes, *absl::c_max_element(lane.versions));
    }
    ASSIGN_OR_RETURN(const std::vector<float> values_after,
                     load_.Job().ValuesAfter(most_pushes, kGradient));
    for (const Lane& lane : lanes_) {
      for (uint32_t slice = 0; slice < load_.slices(); ++slice) {
        RETURN_IF_ERROR(CheckSlice(lane, slice, values_after));
      }
    }
    return absl::OkStatus();
  }

  // Every push was applied once, and the values are right for the pushes of all workers.
  absl::Status CheckSlice(const Lane& lane, uint32_t slice,
                          const std::vector<float>& values_after) const {
    const uint64_t own_pushes = static_cast<uint64_t>(lane.step.value()) + 1;
    const uint64_t pushes = lane.versions[slice];
    if (pushes < own_pushes || (load_.num_workers == 1 && pushes > own_pushes)) {
      return absl::DataLossError(absl::StrCat("slice ", slice, " of an exchange: expected ",
                                              own_pushes, " updates, got ", pushes));
    }
    const float expected = values_after[pushes];
    for (const float value : Part(lane.values, slice)) {
      if (value == expected) continue;
      return absl::DataLossError(absl::StrCat("slice ", slice, " of an exchange: expected ",
                                              expected, " after ", pushes, " updates, got ",
                                              value));
    }
    return absl::OkStatus();
  }

  absl::Span<float> Part(const std::shared_ptr<uint8_t>& memory, uint32_t slice) const {
    const uint64_t elements = std::min(load_.bytes, load_.slice_bytes) / sizeof(float);
    return absl::MakeSpan(reinterpret_cast<float*>(memory.get()) + slice * elements, elements);
  }

  void Send(int index, absl::Time now) {
    Lane& lane = lanes_[index];
    lane.sent = now;
    const uint32_t slices = load_.slices();
    lane.open_slices = slices;
    if (slices == 1) return SendSlice(index, 0, [] {});
    // The scheduler is in use until the loop ends; all replies may be there before.
    {
      MutexLock lock(&mu_);
      ++open_;
    }
    for (uint32_t slice = 0; slice < slices; ++slice) {
      scheduler_.Submit({/*layer=*/0, load_.slice_bytes,
                         [this, index, slice](absl::AnyInvocable<void()> credited) {
                           SendSlice(index, slice, std::move(credited));
                         }});
    }
    MutexLock lock(&mu_);
    EndLocked();
  }

  void EndLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (--open_ == 0) ended_.NotifyAll();
  }

  void SendSlice(int index, uint32_t slice, absl::AnyInvocable<void()> credited) {
    Lane& lane = lanes_[index];
    const absl::Span<float> values = Part(lane.values, slice);
    ExchangeRequest request = job_.RequestOf(worker_, index * load_.slices() + slice);
    request.purpose =
        DenseStep{StepPush{lane.step, Gradient{Payload(Part(lane.gradient, slice), lane.gradient)}},
                  StepPull{lane.step + 1}};
    request.destination = values;
    client_->Exchange(std::move(request), std::move(credited),
                      [this, index, slice, values](const ExchangeReply& reply) {
                        if (reply.status.ok()) {
                          reply.values.CopyTo(values);
                          lanes_[index].versions[slice] = reply.version;
                        }
                        OnReply(index, reply.status);
                      });
  }

  void OnReply(int index, const absl::Status& status) {
    if (!status.ok()) {
      MutexLock lock(&mu_);
      status_ = status;
    }
    if (--lanes_[index].open_slices == 0) OnExchanged(index);
  }

  void OnExchanged(int index) {
    Lane& lane = lanes_[index];
    const absl::Time now = clock_->Now();
    {
      MutexLock lock(&mu_);
      if (now >= begin_ && now < end_) {
        ++count_.exchanges;
        count_.bytes += 2 * load_.bytes;
        if (count_.seconds.size() < kMostLatencies) {
          count_.seconds.push_back(static_cast<float>(absl::ToDoubleSeconds(now - lane.sent)));
        }
      }
      if (now >= end_ || !status_.ok()) {
        return EndLocked();
      }
    }
    lane.step = lane.step + 1;
    Send(index, now);
  }

  const ExchangeLoad& load_;
  const BenchmarkJob job_;
  const int worker_;
  ParameterClient* const client_;
  const absl::Time begin_;
  const absl::Time end_;
  Clock* const clock_;
  Scheduler scheduler_;  // of exchanges that are cut
  BufferPool buffers_;
  std::vector<Lane> lanes_;

  Mutex mu_;
  CondVar ended_;
  int open_ ABSL_GUARDED_BY(mu_) = 0;  // lanes, and calls that use the scheduler
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  ExchangeCount count_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

BenchmarkJob ExchangeLoad::Job() const {
  BenchmarkJob job;
  job.table_bytes = bytes * static_cast<uint64_t>(inflight);
  job.slice_bytes = std::min(bytes, slice_bytes);
  job.num_workers = num_workers;
  job.num_servers = num_servers;
  job.optimizer = optimizer;
  return job;
}

absl::StatusOr<ExchangeCount> RunExchanges(const ExchangeLoad& load, int worker,
                                           ParameterClient* client, absl::Time begin,
                                           absl::Time end, Clock* clock) {
  return Worker(load, worker, client, begin, end, clock).Run();
}

}  // namespace capstan
