#ifndef COMMON_HISTORY_RECORDING_ENDPOINT_H_
#define COMMON_HISTORY_RECORDING_ENDPOINT_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/codec/codec.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/history/history_log.h"
#include "common/tensor/slicing.h"
#include "proto/history.pb.h"

namespace capstan {

// Exchanges of an incarnation have distinct numbers: those of its process `part`
// (v1::HeartbeatRequest::part) are above this one.
inline uint64_t FirstExchangeOf(uint32_t part) { return uint64_t{part} << 40; }

// Records each request and its reply, for the checker of the consistency contract. It stands
// between a worker and its ParameterClient, which sends a request again after a failure: an
// exchange is recorded once. A reply may bring a difference to the values that the worker has. Then
// the values after it are recorded, unless its codec left something out. Exchanges that
// leave parameters alone are not recorded. Thread-safe.
class RecordingEndpoint : public ParameterEndpoint {
 public:
  // The history of one worker, or of one of its processes.
  struct Recording {
    Clock* clock = nullptr;     // Required; outlives the endpoints
    HistoryLog* log = nullptr;  // Required; outlives the endpoints
    bool has_values = false;    // record the values too
    bool has_changes = false;   // instead of the values, only what has changed in them
    // The codecs of the pulls of each table, if values of lossy ones are to be recorded.
    std::vector<std::shared_ptr<const Codec>> pull_codecs;
    std::atomic<uint64_t> last_id = 0;  // at first FirstExchangeOf its process

    Mutex mu;
    // The values in the latest record of each slice, if changes are recorded.
    std::map<SliceKey, std::vector<float>> recorded ABSL_GUARDED_BY(mu);
  };

  // `recording` outlives the endpoint.
  RecordingEndpoint(Recording* recording, std::unique_ptr<ParameterEndpoint> inner);

  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override;

 private:
  // What the worker has of each slice, if its pulls get differences. Outlives the endpoint: replies
  // may come later.
  struct Copy {
    std::vector<float> values;
    uint64_t number = 0;  // ExchangeReply::copy
    bool is_exact = false;
  };
  struct Copies {
    Mutex mu;
    std::map<SliceKey, Copy> of_slice ABSL_GUARDED_BY(mu);
  };

  // Turns the values of the record into changes, and appends it: the order of records is that of
  // the changes.
  static void AppendChanges(Recording& recording, SliceKey slice, v1::HistoryRecord& record);
  static void RecordValues(const Recording& recording, SliceKey slice, const ExchangeReply& reply,
                           Copies& copies, v1::ExchangeEnded* ended);

  Recording& recording_;
  const std::shared_ptr<Copies> copies_ = std::make_shared<Copies>();
  const std::unique_ptr<ParameterEndpoint> inner_;
};

}  // namespace capstan

#endif  // COMMON_HISTORY_RECORDING_ENDPOINT_H_
