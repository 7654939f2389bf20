#ifndef WORKER_CLIENT_PARAMETER_STORE_H_
#define WORKER_CLIENT_PARAMETER_STORE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/scheduler/scheduler.h"
#include "common/tensor/host_buffer.h"
#include "common/tensor/slicing.h"
#include "common/trace/exchange_trace.h"
#include "common/trace/tracer.h"
#include "common/transport/parameter_endpoint.h"
#include "proto/coordinator_service.pb.h"
#include "worker/client/parameter_client.h"
#include "worker/client/parameter_mirror.h"
#include "worker/client/store_traffic.h"

namespace capstan {

// The worker's copy of all parameters, and its gradients. Cuts tensors into slices, hands their
// exchanges to the scheduler, and puts the replies in place. Thread-safe, except that a layer's
// values and gradients may only be touched while no exchange of the layer is open.
class ParameterStore {
 public:
  struct Options {
    Clock* clock = nullptr;             // Required; outlives the store
    ParameterClient* client = nullptr;  // Required; answers every exchange before the store ends
    Scheduler* scheduler = nullptr;     // Required; outlives the store's exchanges
    std::vector<v1::TableSpec> tables;  // Required: of the job, in order of table id
    uint64_t slice_bytes = 0;           // Required
    uint64_t partition_bytes = 0;       // as SetPartition says
    // Outlives the store's exchanges. Null when the device computes on the store's own memory.
    ParameterMirror* mirror = nullptr;
    Tracer* tracer = nullptr;  // outlives the store's exchanges; null: nothing is traced
  };
  using Traffic = StoreTraffic;

  // RESOURCE_EXHAUSTED when there is not enough memory.
  static absl::StatusOr<std::unique_ptr<ParameterStore>> Create(const Options& options);

  // One span for each table.
  absl::Span<const absl::Span<const float>> values() const { return value_spans_; }
  absl::Span<const absl::Span<float>> gradients() const { return gradient_spans_; }

  // Asks for the values of all layers at `step`.
  void PullAll(Step step);
  // Sends the layer's gradients of `step`, and asks for its values at the next step.
  void PushPull(int layer, Step step);
  // The same in two halves, for gradients that are still on their way into the store: from the
  // first one on, WaitForLayer waits; the second one sends. Each PushOpened follows its Open.
  void Open(int layer);
  void PushOpened(int layer, Step step);

  // From the next push on, consecutive slices of a tensor are one transfer, up to so many bytes, or
  // one slice if that is larger.
  void SetPartition(uint64_t partition_bytes);

  // Blocks until no exchange of the layer is open; the first error of any exchange ends all waits.
  absl::Status WaitForLayer(int layer);
  absl::Status WaitForAll();
  // Ends all waits with `status`, now and later, unless an exchange failed before.
  void Fail(absl::Status status);

  Traffic traffic() const;

 private:
  struct Table {
    std::string name;
    int layer = 0;
    Slicing slicing;
    std::shared_ptr<HostBuffer> values;
    std::shared_ptr<HostBuffer> gradient;
    std::vector<uint64_t> versions;  // of each slice's values
  };

  explicit ParameterStore(const Options& options);

  absl::Status AddTable(const v1::TableSpec& spec, uint64_t slice_bytes);
  absl::StatusOr<std::shared_ptr<HostBuffer>> AllocateHost(uint64_t size);
  void SubmitTable(TableId table, std::optional<Step> push_step, Step pull_step);
  // Slices [first, end) as one transfer.
  void SubmitSlices(TableId table, uint32_t first, uint32_t end, std::optional<Step> push_step,
                    Step pull_step);
  void SendSlice(SliceKey key, std::optional<Step> push_step, Step pull_step,
                 const ExchangeTrace& trace, absl::AnyInvocable<void()> sent);
  void OnReply(SliceKey key, Step pull_step, uint64_t bytes_pushed, const ExchangeReply& reply);
  absl::Span<float> ValuesOf(SliceKey key) const;
  absl::Status TakeValues(SliceKey key, const ExchangeReply& reply);
  void RecordSending(absl::Time begin);
  // Of an exchange that begins in the scheduler's queue; does nothing without a tracer.
  ExchangeTrace Trace(SliceKey key, std::optional<Step> push_step, Step pull_step) const;

  Clock* const clock_;
  ParameterClient* const client_;
  Scheduler* const scheduler_;
  ParameterMirror* const mirror_;
  const uint64_t slice_bytes_;
  Tracer* const tracer_;
  std::vector<Table> tables_;
  int layer_count_ = 0;
  std::vector<int64_t> slices_of_layer_;
  std::vector<absl::Span<const float>> value_spans_;
  std::vector<absl::Span<float>> gradient_spans_;

  std::atomic<uint64_t> slices_together_{1};  // of a transfer

  // Of each layer: exchanges that are open, and whose values are not in place yet.
  std::vector<std::atomic<int64_t>> awaited_slices_;

  mutable Mutex mu_;
  CondVar changed_;
  std::vector<int64_t> open_exchanges_ ABSL_GUARDED_BY(mu_);  // of each layer: not answered yet
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  TrafficCounter traffic_ ABSL_GUARDED_BY(mu_);
};

}  // namespace capstan

#endif  // WORKER_CLIENT_PARAMETER_STORE_H_
