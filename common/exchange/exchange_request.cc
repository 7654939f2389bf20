#include "common/exchange/exchange_request.h"

namespace capstan {
namespace {

template <typename Half>
const Half* PointerTo(const std::optional<Half>& half) {
  return half.has_value() ? &*half : nullptr;
}

// ForEachPayload. The template is for constant requests, too.
template <typename Request, typename Use>
void VisitPayloads(Request& request, Use use) {
  const auto use_gradient = [&use](auto& push) {
    if (push.has_value() && push->gradient.has_value()) use(push->gradient->bytes);
  };
  auto* const purpose = &request.purpose;
  if (auto* const dense = std::get_if<DenseStep>(purpose)) {
    use_gradient(dense->push);
  } else if (auto* const rows = std::get_if<RowStep>(purpose)) {
    use_gradient(rows->push);
    use(rows->pushed_keys.bytes);
    use(rows->pulled_keys.bytes);
  } else if (auto* const state = std::get_if<WorkerState>(purpose)) {
    use(state->arrays);
  } else if (auto* const table = std::get_if<TableState>(purpose)) {
    use(table->arrays);
  } else if (auto* const initial = std::get_if<InitialValues>(purpose)) {
    use(initial->values);
  } else if (auto* const optimizer = std::get_if<OptimizerState>(purpose)) {
    use(optimizer->values);
  } else if (auto* const collective = std::get_if<Collective>(purpose)) {
    use(collective->values);
  } else if (auto* const probe = std::get_if<Probe>(purpose)) {
    use(probe->bytes);
  } else if (auto* const record = std::get_if<ReplicaRecord>(purpose)) {
    use(record->bytes);
  }
}

}  // namespace

SenderRole SenderRoleOf(const ExchangeRequest& request) {
  return std::holds_alternative<ReplicaRecord>(request.purpose) ? SenderRole::kServer
                                                                : SenderRole::kWorker;
}

bool IsStep(const ExchangeRequest& request) {
  return std::holds_alternative<DenseStep>(request.purpose) ||
         std::holds_alternative<RowStep>(request.purpose);
}

bool LeavesParameters(const ExchangeRequest& request) {
  return std::holds_alternative<WorkerState>(request.purpose) ||
         std::holds_alternative<TableState>(request.purpose) ||
         std::holds_alternative<Collective>(request.purpose) ||
         std::holds_alternative<OptimizerState>(request.purpose) ||
         std::holds_alternative<ReplicaRecord>(request.purpose) || PullsState(request);
}

bool PullsState(const ExchangeRequest& request) {
  return std::holds_alternative<WorkerStatePull>(request.purpose) ||
         std::holds_alternative<OptimizerStatePull>(request.purpose);
}

const StepPush* PushOf(const ExchangeRequest& request) {
  if (const auto* step = std::get_if<DenseStep>(&request.purpose)) return PointerTo(step->push);
  if (const auto* step = std::get_if<RowStep>(&request.purpose)) return PointerTo(step->push);
  return nullptr;
}

const StepPull* PullOf(const ExchangeRequest& request) {
  if (const auto* step = std::get_if<DenseStep>(&request.purpose)) return PointerTo(step->pull);
  if (const auto* step = std::get_if<RowStep>(&request.purpose)) return PointerTo(step->pull);
  return nullptr;
}

const Gradient* GradientOf(const ExchangeRequest& request) {
  const StepPush* const push = PushOf(request);
  return push == nullptr ? nullptr : PointerTo(push->gradient);
}

void ForEachPayload(ExchangeRequest& request, absl::FunctionRef<void(Payload&)> use) {
  VisitPayloads(request, use);
}

size_t PayloadBytes(const ExchangeRequest& request) {
  size_t bytes = 0;
  VisitPayloads(request, [&bytes](const Payload& payload) { bytes += payload.size_bytes(); });
  return bytes;
}

ExchangeRequest PullAlone(const ExchangeRequest& request) {
  ExchangeRequest alone;
  alone.sender = request.sender;
  alone.epoch = request.epoch;
  alone.slice = request.slice;
  if (const auto* dense = std::get_if<DenseStep>(&request.purpose)) {
    auto& pull = std::get<DenseStep>(alone.purpose);
    pull.pull = dense->pull;
    pull.copy = dense->copy;
  } else if (const auto* rows = std::get_if<RowStep>(&request.purpose)) {
    auto& pull = alone.purpose.emplace<RowStep>();
    pull.pull = rows->pull;
    pull.pulled_keys.rows = rows->pulled_keys.rows;
    pull.pulled_keys.hash = rows->pulled_keys.hash;
  } else if (const auto* state = std::get_if<WorkerStatePull>(&request.purpose)) {
    alone.purpose = *state;
  } else if (const auto* optimizer = std::get_if<OptimizerStatePull>(&request.purpose)) {
    alone.purpose = *optimizer;
  } else if (const auto* collective = std::get_if<Collective>(&request.purpose)) {
    alone.purpose = *collective;
    std::get<Collective>(alone.purpose).values.Clear();
  }
  return alone;
}

}  // namespace capstan
