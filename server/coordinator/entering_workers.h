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

// The workers that have taken a dead one's place and do not know where to begin. Each server says
// up to where it has updates of that place, and waits there; the first step is beyond all of them,
// so that no update is pushed twice. Not thread-safe.
class EnteringWorkers {
 public:
  void Begin(uint32_t worker, Incarnation incarnation);
  // It has died.
  void Forget(uint32_t worker) { entering_.erase(worker); }
  // Ignored unless it is of an entering incarnation.
  void Report(uint32_t server, const v1::NextStep& next_step);
  bool Contains(uint32_t worker) const { return entering_.count(worker) > 0; }

  // Takes out those of whom `num_servers` servers have reported, each with its first step.
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
