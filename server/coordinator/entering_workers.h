#ifndef SERVER_COORDINATOR_ENTERING_WORKERS_H_
#define SERVER_COORDINATOR_ENTERING_WORKERS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// Workers in the place of dead ones, until they have a first step. Each server reports its next
// step without an update of that place, and waits there. The first step is the largest of these, so
// that no update is pushed twice. Not thread-safe.
class EnteringWorkers {
 public:
  void Begin(uint32_t worker, Incarnation incarnation);
  // The worker has died.
  void Forget(uint32_t worker) { entering_.erase(worker); }
  // Ignored unless it names an entering incarnation.
  void Report(uint32_t server, const v1::NextStep& next_step);
  bool is_empty() const { return entering_.empty(); }
  bool Contains(uint32_t worker) const { return entering_.count(worker) > 0; }

  // Takes out the workers with reports of `num_servers` servers, each with its first step.
  std::vector<std::pair<uint32_t, Step>> TakeReady(size_t num_servers);

 private:
  struct Entering {
    Incarnation incarnation;
    std::map<uint32_t, Step> next_steps;  // of each server
  };
  std::map<uint32_t, Entering> entering_;  // by worker
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_ENTERING_WORKERS_H_
