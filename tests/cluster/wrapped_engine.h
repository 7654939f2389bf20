#ifndef TESTS_CLUSTER_WRAPPED_ENGINE_H_
#define TESTS_CLUSTER_WRAPPED_ENGINE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker/engine/engine.h"

namespace capstan {

// Passes each call on to another engine. A derived class adds something to some calls.
class WrappedEngine : public Engine {
 public:
  explicit WrappedEngine(std::unique_ptr<Engine> inner) : inner_(std::move(inner)) {}

  const std::string& device_name() const override { return inner_->device_name(); }
  const std::vector<v1::TableSpec>& tables() const override { return inner_->tables(); }
  ParameterMirror* mirror() override { return inner_->mirror(); }
  absl::Status LoadBatch(const Dataset& dataset, absl::Span<const uint32_t> samples) override {
    return inner_->LoadBatch(dataset, samples);
  }
  absl::Status RunStep(Step step, ParameterStore& store) override {
    return inner_->RunStep(step, store);
  }
  absl::Status RunForward(ParameterStore& store) override { return inner_->RunForward(store); }
  absl::StatusOr<BatchResult> Result() override { return inner_->Result(); }
  absl::Status Finish() override { return inner_->Finish(); }

 private:
  const std::unique_ptr<Engine> inner_;
};

}  // namespace capstan

#endif  // TESTS_CLUSTER_WRAPPED_ENGINE_H_
