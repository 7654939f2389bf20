#ifndef WORKER_RUNTIME_WORKER_METRICS_H_
#define WORKER_RUNTIME_WORKER_METRICS_H_

#include <cstdint>
#include <map>
#include <optional>

#include "common/metrics/metrics_page.h"
#include "common/scheduler/scheduler.h"
#include "proto/coordinator_service.pb.h"
#include "worker/client/store_traffic.h"
#include "worker/engine/engine.h"
#include "worker/runtime/training_loop.h"

namespace capstan {

// What the parts of a worker that trains have counted.
struct WorkerCounts {
  v1::Progress progress;
  TrainingLoop::StepParts step_parts;
  StoreTraffic traffic;
  int64_t retries = 0;
  std::map<int, Scheduler::Waiting> waiting;  // by layer
  std::optional<Engine::CopiedBytes> copied;
};

void AddWorkerMetrics(const WorkerCounts& counts, MetricsPage& page);

}  // namespace capstan

#endif  // WORKER_RUNTIME_WORKER_METRICS_H_
