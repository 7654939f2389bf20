#include "server/shard/dense_slice.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/tensor/host_buffer.h"
#include "kernels/cpu/gradients.h"

namespace capstan {

DenseSlice::DenseSlice(Options options)
    : Slice(std::move(options.slice), options.own_arrays, options.memory.values.size()),
      codecs_(std::move(options.codecs)),
      state_(std::move(options.memory), options.optimizer),
      encoded_values_(codecs_.pull.get(), options.pull_draws),
      copies_(codecs_.pull.get(), options.pull_draws, options.reply_state),
      accumulator_(state_.size()) {}

absl::Status DenseSlice::SetInitialValues(const ExchangeRequest& request) {
  const size_t bytes = state_.size() * sizeof(float);
  if (request.codec != CodecType::kFloat32 || request.gradient.size_bytes() != bytes) {
    return absl::InvalidArgumentError(absl::StrCat(name(), ": expected initial values of ", bytes,
                                                   " bytes (", state_.size(), " float32), got ",
                                                   request.gradient.size_bytes(), " of codec ",
                                                   static_cast<int>(request.codec)));
  }
  const auto is_finite = [](size_t, absl::Span<const float> block) { return IsFinite(block); };
  if (checks_finite() && !request.gradient.ForEachBlock(is_finite)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name(), ": the initial values hold a NaN or an infinity"));
  }
  state_.SetInitialValues(request.gradient);
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> DenseSlice::PushGradient(ExchangeRequest& request) {
  const Step step = *request.push_step;
  absl::StatusOr<EncodedGradient> gradient =
      EncodedGradient::Take(request, codecs_.PushOf(step, request.codec), state_.size());
  if (!gradient.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(name(), ": ", gradient.status().message()));
  }
  RETURN_IF_ERROR(CheckPush(request));
  return IsKept(step) ? Keep(request, *std::move(gradient)) : ApplyNow(request, *gradient);
}

absl::StatusOr<uint64_t> DenseSlice::Keep(const ExchangeRequest& request,
                                          EncodedGradient gradient) {
  if (checks_finite() && !gradient.IsFinite()) return NotFinite(request);
  const Codec& push_codec = codecs_.PushOf(*request.push_step, request.codec);
  const Codec* const codec = push_codec.is_lossy() ? &push_codec : nullptr;
  HostBuffer kept =
      std::move(gradient).Keep([this, codec] { return accumulator_.TakeBuffer(codec); });
  accumulator_.Add(*request.push_step, request.worker,
                   {std::move(kept), request.base_version, codec, request.learning_rate});
  return 0;
}

absl::StatusOr<uint64_t> DenseSlice::ApplyNow(const ExchangeRequest& request,
                                              const EncodedGradient& gradient) {
  // No value may change before the whole gradient is known to be finite.
  if (checks_finite() && !gradient.IsFinite()) return NotFinite(request);
  const uint64_t divisor = DivisorOf(request.base_version);
  const SliceState::Update update = state_.BeginUpdate(divisor, request.learning_rate);
  gradient.ForEachBlock(
      [&update](size_t offset, absl::Span<const float> block) { update.Apply(offset, block); });
  return divisor;
}

void DenseSlice::ApplyOne(Step step) {
  StepAccumulator::Kept push = accumulator_.TakeOne(step);
  if (push.is_empty()) return;
  const SliceState::Update update =
      state_.BeginUpdate(DivisorOf(push.base_version), push.learning_rate);
  accumulator_.ForEachBlock(push, [&update](size_t offset, absl::Span<const float> block) {
    update.Apply(offset, block);
  });
  accumulator_.ReturnBuffer(std::move(push.gradient));
}

void DenseSlice::ApplyMean(Step step) {
  const StepAccumulator::Kept* const first = accumulator_.FirstGradient(step);
  // All live workers have done the step, and none has a gradient: nothing changes.
  if (first == nullptr) return accumulator_.Drop(step);
  const SliceState::Update update =
      state_.BeginUpdate(/*learning_rate_divisor=*/1, first->learning_rate);
  accumulator_.TakeMean(
      step, [&update](size_t offset, absl::Span<const float> mean) { update.Apply(offset, mean); });
}

absl::StatusOr<ParkedPull> DenseSlice::TakePull(ExchangeRequest& request) {
  ParkedPull pull;
  pull.step = *request.pull_step;
  pull.is_float32 = request.pulls_float32;
  pull.copy = request.copy;
  return pull;
}

ExchangeReply DenseSlice::ReplyWithValues(WorkerId worker, const ParkedPull& pull) {
  ExchangeReply reply = MakeReply(pull.learning_rate_divisor);
  if (pull.is_float32 || !codecs_.pull->is_lossy()) {
    reply.values = state_.Share();
    return reply;
  }
  absl::StatusOr<WorkerCopies::Reply> encoded = EncodedReply(worker, pull);
  if (!encoded.ok()) return ErrorReply(Annotate(encoded.status(), name()));
  reply.values = std::move(encoded->values);
  reply.codec = encoded->codec;
  reply.copy = encoded->copy;
  return reply;
}

absl::StatusOr<WorkerCopies::Reply> DenseSlice::EncodedReply(WorkerId worker,
                                                             const ParkedPull& pull) {
  if (IsTopk(codecs_.pull->type())) {
    const bool is_shared = IsWhole(pull.step);
    return copies_.Answer({worker, pull.copy, is_shared}, state_.Share(), state_.version());
  }
  WorkerCopies::Reply reply;
  ASSIGN_OR_RETURN(reply.values, encoded_values_.Encode(state_.values(), state_.version()));
  reply.codec = codecs_.pull->type();
  return reply;
}

void DenseSlice::Save(SliceSnapshot& snapshot) const {
  snapshot.values = state_.Share();
  snapshot.optimizer_state = state_.ShareOptimizerState();
  snapshot.copy = copies_.shared();
  accumulator_.ForEach([&](Step step, WorkerId worker, const StepAccumulator::Kept& kept) {
    SliceSnapshot::KeptPush& push = snapshot.kept.emplace_back();
    push.step = step;
    push.worker = worker;
    push.base_version = kept.base_version;
    push.learning_rate = kept.learning_rate;
    push.is_empty = kept.is_empty();
    if (push.is_empty) return;
    const auto copy = std::make_shared<std::vector<float>>(state_.size());
    accumulator_.ForEachBlock(kept, [&copy](size_t offset, absl::Span<const float> block) {
      std::copy(block.begin(), block.end(), copy->begin() + offset);
    });
    push.gradient = Payload(*copy, copy);
  });
}

absl::Status DenseSlice::Load(const SliceSnapshot& snapshot) {
  if (snapshot.copy.has_value()) RETURN_IF_ERROR(copies_.Restore(*snapshot.copy));
  for (const SliceSnapshot::KeptPush& push : snapshot.kept) {
    StepAccumulator::Kept kept;
    kept.base_version = push.base_version;
    kept.learning_rate = push.learning_rate;
    if (!push.is_empty) {
      kept.gradient = HostBuffer(state_.size());
      push.gradient.CopyTo(kept.gradient.span());
    }
    accumulator_.Add(push.step, push.worker, std::move(kept));
  }
  return absl::OkStatus();
}

SliceMemory DenseSlice::memory() const {
  SliceMemory memory;
  memory.parameters = state_.values_bytes();
  memory.optimizer = state_.optimizer_bytes();
  memory.accumulators = accumulator_.size_bytes();
  memory.copies = copies_.size_bytes() + encoded_values_.size_bytes();
  return memory;
}

}  // namespace capstan
