#ifndef WORKER_CLIENT_PARAMETER_STORE_H_
#define WORKER_CLIENT_PARAMETER_STORE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/tensor/host_buffer.h"
#include "common/tensor/slicing.h"
#include "common/transport/parameter_endpoint.h"
#include "proto/coordinator_service.pb.h"
#include "worker/client/parameter_client.h"
#include "worker/client/parameter_mirror.h"
#include "worker/scheduler/scheduler.h"

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
    // Outlives the store's exchanges. Null when the device computes on the store's own memory.
    ParameterMirror* mirror = nullptr;
    // A layer's values are put in place when it is waited for, by a second pull of the same step:
    // the newest that the connections have by then (EagerEndpoint), and not those of the first.
    bool is_eager = false;
  };
  struct Traffic {
    uint64_t bytes_pushed = 0;       // payloads of answered pushes
    uint64_t bytes_pulled = 0;       // without those that an EagerEndpoint had
    int64_t steps_ahead = 0;         // pull step - min_step of the latest reply
    int64_t max_staleness_seen = 0;  // largest (pull step - min_step of its reply), in steps
    double mean_staleness_seen = 0;  // over all replies that were put in place
    // How many replies were as many steps stale; the last of at most kStalenessCounts counts all
    // that were more, too.
    std::vector<uint64_t> replies_of_staleness;
    absl::Duration waiting;  // of WaitForLayer
    absl::Duration sending;  // of the calls that hand exchanges to the scheduler
  };

  static constexpr int64_t kStalenessCounts = 128;

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

  // Blocks until no exchange of the layer is open; the first error of any exchange ends all waits.
  absl::Status WaitForLayer(int layer);
  absl::Status WaitForAll();
  // Ends all waits with `status`, now and later, unless an exchange failed before.
  void Fail(absl::Status status);

  Traffic traffic() const;

 private:
  struct Table {
    int layer = 0;
    Slicing slicing;
    std::shared_ptr<HostBuffer> values;
    std::shared_ptr<HostBuffer> gradient;
  };

  explicit ParameterStore(const Options& options);

  absl::Status AddTable(const v1::TableSpec& spec, uint64_t slice_bytes);
  absl::StatusOr<std::shared_ptr<HostBuffer>> AllocateHost(uint64_t size);
  void SubmitTable(TableId table, std::optional<Step> push_step, Step pull_step);
  void SubmitSlice(SliceKey key, std::optional<Step> push_step, Step pull_step);
  // Puts the values that the latest pull of the layer stands for in place.
  void TakeLayer(int layer, Step pull_step);
  // `is_in_place`: its values are put there, else a second pull will do that.
  void OnReply(SliceKey key, Step pull_step, uint64_t bytes_pushed, bool is_in_place,
               const ExchangeReply& reply);
  absl::Status WaitForReplies(int layer);
  // The step of the latest pull of the layer if nobody has waited for it yet.
  std::optional<Step> TakeAwaited(int layer);
  absl::Span<float> ValuesOf(SliceKey key) const;
  absl::Status TakeValues(SliceKey key, const ExchangeReply& reply);
  void RecordStalenessLocked(int64_t staleness) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RecordSending(absl::Time begin);

  Clock* const clock_;
  ParameterClient* const client_;
  Scheduler* const scheduler_;
  ParameterMirror* const mirror_;
  const bool is_eager_;
  std::vector<Table> tables_;
  int layer_count_ = 0;
  std::vector<int64_t> slices_of_layer_;
  std::vector<absl::Span<const float>> value_spans_;
  std::vector<absl::Span<float>> gradient_spans_;

  // Of each layer: exchanges that are open, and whose values are not in place yet.
  std::vector<std::atomic<int64_t>> awaited_slices_;

  mutable Mutex mu_;
  CondVar changed_;
  std::vector<int64_t> open_exchanges_ ABSL_GUARDED_BY(mu_);            // of each layer
  std::vector<std::optional<Step>> awaited_step_ ABSL_GUARDED_BY(mu_);  // of each layer
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  Traffic traffic_ ABSL_GUARDED_BY(mu_);
  uint64_t staleness_sum_ ABSL_GUARDED_BY(mu_) = 0;  // over all replies
  uint64_t replies_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace capstan

#endif  // WORKER_CLIENT_PARAMETER_STORE_H_
