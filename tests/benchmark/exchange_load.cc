#include "tests/benchmark/exchange_load.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/tensor/buffer_pool.h"
#include "common/transport/parameter_endpoint.h"
#include "common/transport/payload.h"

namespace capstan {
namespace {

constexpr size_t kMostLatencies = 1 << 20;

uint64_t Elements(const ExchangeLoad& load) { return load.slice_bytes / sizeof(float); }

// One slice of one worker, always in flight.
struct Lane {
  std::shared_ptr<uint8_t> gradient;
  std::shared_ptr<uint8_t> values;
  Step step = Step(0);
  absl::Time sent;
};

class Worker {
 public:
  Worker(const ExchangeLoad& load, ParameterClient* client, absl::Time begin, absl::Time end,
         Clock* clock)
      : load_(load), client_(client), begin_(begin), end_(end), clock_(clock) {
    lanes_.resize(load.inflight);
    for (Lane& lane : lanes_) {
      for (std::shared_ptr<uint8_t>* memory : {&lane.gradient, &lane.values}) {
        *memory = buffers_.Take(load.slice_bytes);
        std::fill_n(reinterpret_cast<float*>(memory->get()), Elements(load), 1e-6f);
      }
    }
  }

  absl::StatusOr<ExchangeCount> Run() {
    {
      MutexLock lock(&mu_);
      open_ = load_.inflight;
    }
    for (int lane = 0; lane < load_.inflight; ++lane) Send(lane);
    MutexLock lock(&mu_);
    while (open_ > 0) clock_->WaitUntil(mu_, ended_, absl::InfiniteFuture());
    RETURN_IF_ERROR(status_);
    return std::move(count_);
  }

 private:
  void Send(int index) {
    Lane& lane = lanes_[index];
    lane.sent = clock_->Now();
    const Payload gradient({reinterpret_cast<const float*>(lane.gradient.get()), Elements(load_)},
                           lane.gradient);
    client_->Exchange(
        {TableId(0), SliceIndex(static_cast<uint32_t>(index))}, lane.step, gradient, lane.step + 1,
        {reinterpret_cast<float*>(lane.values.get()), Elements(load_)}, [] {},
        [this, index](ExchangeReply reply) { OnReply(index, reply); });
  }

  void OnReply(int index, const ExchangeReply& reply) {
    Lane& lane = lanes_[index];
    const absl::Span<float> values(reinterpret_cast<float*>(lane.values.get()), Elements(load_));
    if (reply.status.ok()) reply.values.CopyTo(values);
    const absl::Time now = clock_->Now();
    const bool is_over = now >= end_ || !reply.status.ok();
    {
      MutexLock lock(&mu_);
      if (!reply.status.ok()) status_ = reply.status;
      if (now >= begin_ && now < end_) {
        ++count_.exchanges;
        count_.bytes += 2 * load_.slice_bytes;
        if (count_.seconds.size() < kMostLatencies) {
          count_.seconds.push_back(static_cast<float>(absl::ToDoubleSeconds(now - lane.sent)));
        }
      }
      if (is_over) --open_;
      if (open_ == 0) ended_.NotifyAll();
    }
    if (is_over) return;
    lane.step = lane.step + 1;
    Send(index);
  }

  const ExchangeLoad& load_;
  ParameterClient* const client_;
  const absl::Time begin_;
  const absl::Time end_;
  Clock* const clock_;
  BufferPool buffers_;
  std::vector<Lane> lanes_;

  Mutex mu_;
  CondVar ended_;
  int open_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  ExchangeCount count_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

BenchmarkJob ExchangeLoad::Job() const {
  BenchmarkJob job;
  job.table_bytes = slice_bytes * static_cast<uint64_t>(inflight);
  job.slice_bytes = slice_bytes;
  job.num_workers = num_workers;
  job.num_servers = num_servers;
  job.optimizer = optimizer;
  return job;
}

absl::StatusOr<ExchangeCount> RunExchanges(const ExchangeLoad& load, ParameterClient* client,
                                           absl::Time begin, absl::Time end, Clock* clock) {
  return Worker(load, client, begin, end, clock).Run();
}

}  // namespace capstan
