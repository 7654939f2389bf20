#ifndef COMMON_HISTORY_RECORDING_ENDPOINT_H_
#define COMMON_HISTORY_RECORDING_ENDPOINT_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "common/base/clock.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/history/history_log.h"

namespace capstan {

// Records each request and its reply, for the checker of the consistency contract. It wraps the
// worker's ParameterClient: an exchange is recorded once, however often it is sent. Exchanges of
// own state are not recorded. Thread-safe.
class RecordingEndpoint : public ParameterEndpoint {
 public:
  // The history of one worker.
  struct Recording {
    Clock* clock = nullptr;     // Required; outlives the endpoints
    HistoryLog* log = nullptr;  // Required; outlives the endpoints
    bool has_values = false;    // record the values too
    std::atomic<uint64_t> last_id = 0;
  };

  // `recording` outlives the endpoint.
  RecordingEndpoint(Recording* recording, std::unique_ptr<ParameterEndpoint> inner);

  void Exchange(ExchangeRequest request, DeliveredCallback delivered, ReplyCallback done) override;

 private:
  Recording& recording_;
  const std::unique_ptr<ParameterEndpoint> inner_;
};

}  // namespace capstan

#endif  // COMMON_HISTORY_RECORDING_ENDPOINT_H_
