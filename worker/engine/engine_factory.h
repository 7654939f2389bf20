#ifndef WORKER_ENGINE_ENGINE_FACTORY_H_
#define WORKER_ENGINE_ENGINE_FACTORY_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/trace/tracer.h"
#include "proto/job.pb.h"
#include "worker/engine/engine.h"

namespace capstan {

// What an engine is made for.
struct EngineOptions {
  v1::ModelSpec model;
  int feature_count = 0;     // Required: of a sample
  int class_count = 0;       // Required
  int64_t max_samples = 0;   // Required: of a batch
  Clock* clock = nullptr;    // Required; outlives the engine
  Tracer* tracer = nullptr;  // outlives the engine; null: nothing is traced
};

// Makes engines on one device.
using EngineFactory =
    std::function<absl::StatusOr<std::unique_ptr<Engine>>(const EngineOptions& options)>;

}  // namespace capstan

#endif  // WORKER_ENGINE_ENGINE_FACTORY_H_
