#ifndef COMMON_EXCHANGE_REQUEST_PARTS_H_
#define COMMON_EXCHANGE_REQUEST_PARTS_H_

#include <optional>
#include <utility>
#include <variant>

#include "common/base/ids.h"
#include "common/codec/codec.h"
#include "common/exchange/exchange_request.h"
#include "common/exchange/payload.h"

namespace capstan {

// For tests: makes dense requests, and looks into requests.

// The purpose of a push and a pull at these steps. A push has `gradient`, as float32.
inline DenseStep MakeDenseStep(std::optional<Step> push, std::optional<Step> pull,
                               Payload gradient = {}) {
  DenseStep step;
  if (push.has_value()) step.push = {*push, Gradient{std::move(gradient)}};
  if (pull.has_value()) step.pull = {*pull};
  return step;
}

inline DenseStep& DenseStepOf(ExchangeRequest& request) {
  return std::get<DenseStep>(request.purpose);
}
inline RowStep& RowStepOf(ExchangeRequest& request) { return std::get<RowStep>(request.purpose); }
inline const RowStep& RowStepOf(const ExchangeRequest& request) {
  return std::get<RowStep>(request.purpose);
}

inline std::optional<Step> PushStepOf(const ExchangeRequest& request) {
  const StepPush* const push = PushOf(request);
  return push == nullptr ? std::nullopt : std::make_optional(push->step);
}
inline std::optional<Step> PullStepOf(const ExchangeRequest& request) {
  const StepPull* const pull = PullOf(request);
  return pull == nullptr ? std::nullopt : std::make_optional(pull->step);
}
inline bool HasEmptyPush(const ExchangeRequest& request) {
  return PushOf(request) != nullptr && GradientOf(request) == nullptr;
}
inline bool PullsFloat32(const ExchangeRequest& request) {
  return PullOf(request) != nullptr && PullOf(request)->is_float32;
}

// The one payload of the request that is no list of keys: a gradient, a state, values, a probe.
inline Payload BroughtBy(const ExchangeRequest& request) {
  Payload bytes;
  ExchangeRequest copy = request;
  ForEachPayload(copy, [&bytes](Payload& part) {
    if (bytes.empty()) bytes = part;
  });
  return bytes;
}
// The codec of its gradient; float32 if it has none.
inline CodecType CodecOf(const ExchangeRequest& request) {
  const Gradient* const gradient = GradientOf(request);
  return gradient == nullptr ? CodecType::kFloat32 : gradient->codec;
}

}  // namespace capstan

#endif  // COMMON_EXCHANGE_REQUEST_PARTS_H_
