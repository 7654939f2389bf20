#include "server/slice/dense_slice.h"

#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "kernels/cpu/gradients.h"

namespace capstan {
namespace {

constexpr uint64_t kMostOptimizerSteps = uint64_t{1} << 62;

}  // namespace

DenseSlice::DenseSlice(Options options)
    : Slice(std::move(options.slice), options.own_arrays, options.memory.values.size()),
      codecs_(std::move(options.codecs)),
      keeps_open_step_(options.keeps_open_step),
      state_(std::move(options.memory), options.optimizer),
      encoded_values_(codecs_.pull.get(), options.pull_draws),
      copies_(codecs_.pull.get(), options.pull_draws, options.reply_state) {}

absl::Status DenseSlice::SetInitialValues(const Payload& values) {
  const size_t bytes = state_.size() * sizeof(float);
  if (values.size_bytes() != bytes) {
    return absl::InvalidArgumentError(absl::StrCat(name(), ": expected initial values of ", bytes,
                                                   " bytes (", state_.size(), " float32), got ",
                                                   values.size_bytes()));
  }
  const auto is_finite = [](size_t, absl::Span<const float> block) { return IsFinite(block); };
  if (checks_finite() && !values.ForEachBlock(is_finite)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name(), ": the initial values hold a NaN or an infinity"));
  }
  state_.SetValues(values);
  return absl::OkStatus();
}

absl::Status DenseSlice::ReadDense(WorkerId worker, DenseStep&& step, CheckedStep* read) const {
  if (step.pull.has_value()) {
    ParkedPull& pull = read->pull.emplace();
    pull.step = step.pull->step;
    pull.is_float32 = step.pull->is_float32;
    pull.copy = step.copy;
  }
  if (!step.push.has_value()) return absl::OkStatus();
  StepPush& push = *step.push;
  if (push.rates.momentum.has_value() && !state_.optimizer_has_momentum()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name(), ": expected no momentum, because the table's optimizer has none, got ",
                     *push.rates.momentum));
  }
  read->push = HeadOf(worker, push);
  if (!push.gradient.has_value() || IsAgain(worker, push)) return absl::OkStatus();
  const Codec& codec = codecs_.PushOf(push.step, push.gradient->codec);
  absl::StatusOr<EncodedGradient> gradient =
      EncodedGradient::Check(*std::move(push.gradient), codec, state_.size());
  if (!gradient.ok()) return Annotate(gradient.status(), name());
  read->push->gradient = *std::move(gradient);
  return absl::OkStatus();
}

void DenseSlice::Apply(const CheckedPush& push, uint64_t learning_rate_divisor) {
  const SliceState::Update update = state_.BeginUpdate(learning_rate_divisor, push.rates);
  push.gradient->ForEachBlock(
      [&update](size_t offset, absl::Span<const float> block) { update.Apply(offset, block); });
}

void DenseSlice::ApplyMean(Step /*step*/, PushesOfStep pushes, MeanForCopy* mean) {
  // The rates are those of the first one with a gradient.
  const CheckedPush& first =
      **std::find_if(pushes.begin(), pushes.end(),
                     [](const CheckedPush* push) { return push->gradient.has_value(); });
  const SliceState::Update update = state_.BeginUpdate(/*learning_rate_divisor=*/1, first.rates);
  const size_t bytes = state_.size() * sizeof(float);
  float* copy = nullptr;
  if (mean != nullptr && BytesOf(pushes) > bytes) {
    std::shared_ptr<uint8_t> memory = mean->pool->Take(bytes);
    copy = reinterpret_cast<float*>(memory.get());
    mean->values = Payload(absl::Span<const float>(copy, state_.size()), std::move(memory));
  }
  ForEachBlockOfMean(pushes, state_.size(), [&](size_t offset, absl::Span<const float> block) {
    update.Apply(offset, block);
    if (copy != nullptr) std::copy(block.begin(), block.end(), copy + offset);
  });
}

absl::StatusOr<CheckedPush> DenseSlice::ReadNoted(const v1::PushHead& head,
                                                  PayloadReader& payload) {
  CheckedStep read;
  ASSIGN_OR_RETURN(DenseStep step, ReadDensePush(head, payload));
  // A push from a checkpoint is float32, whatever the table's codec.
  const bool is_exact = head.codec() == v1::FLOAT32;
  std::optional<Gradient> exact;
  if (is_exact) exact = std::exchange(step.push->gradient, std::nullopt);
  RETURN_IF_ERROR(ReadDense(WorkerId(head.worker()), std::move(step), &read));
  if (is_exact) {
    RETURN_IF_ERROR(CheckValues("a push", exact->bytes));
    read.push->gradient = EncodedGradient(std::move(exact->bytes));
  }
  return *std::move(read.push);
}

absl::StatusOr<CheckedPush> DenseSlice::ReadMean(const v1::AppliedStep& step,
                                                 PayloadReader& payload) const {
  // The rates are those of the first one with a gradient.
  for (const v1::PushHead& head : step.pushes()) {
    if (head.codec() == v1::CODEC_UNSPECIFIED) continue;
    CheckedPush mean;
    mean.step = Step(step.step());
    mean.worker = WorkerId(head.worker());
    if (head.has_learning_rate()) mean.rates.learning_rate = head.learning_rate();
    if (head.has_momentum()) mean.rates.momentum = head.momentum();
    ASSIGN_OR_RETURN(Payload values, payload.Take(state_.size() * sizeof(float)));
    mean.gradient = EncodedGradient(std::move(values));
    return mean;
  }
  return absl::InvalidArgumentError(absl::StrCat(name(), ": the mean of a step without gradients"));
}

absl::Status DenseSlice::FollowOwn(const v1::ReplicaChange& change, const Payload& /*payload*/) {
  if (change.kind_case() != v1::ReplicaChange::kSharedCopy || !IsTopk(codecs_.pull->type())) {
    return absl::InvalidArgumentError(
        absl::StrCat(name(), ": a change of kind ", change.kind_case(), " for a dense table"));
  }
  return copies_.Follow(state_.Share(), version(), change.shared_copy().number());
}

void DenseSlice::SaveForCopy(Copy& copy) const {
  copy.rest.set_copy_number(copies_.shared_number());
  if (before_.has_value()) {
    copy.rest.set_before_step(before_->step.value());
    copy.rest.set_before_version(before_->version);
    copy.rest.set_before_bytes(before_->values.size_bytes());
    copy.rest_bytes.Append(before_->values);
  }
  if (const std::optional<Payload> update = state_.ShareUpdate()) {
    copy.rest.set_update_bytes(update->size_bytes());
    copy.rest_bytes.Append(*update);
  }
}

absl::Status DenseSlice::LoadForCopy(const v1::CopiedSlice& rest, PayloadReader& bytes) {
  if (rest.copy_number() > 0 && copies_.shared_number() > 0) {
    copies_.set_shared_number(rest.copy_number());
  }
  if (rest.has_before_step()) RETURN_IF_ERROR(LoadBefore(rest, bytes));
  if (rest.update_bytes() == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Payload update, bytes.Take(rest.update_bytes()));
  RETURN_IF_ERROR(CheckValues("the latest update", update));
  state_.LoadUpdate(update);
  return absl::OkStatus();
}

absl::Status DenseSlice::LoadBefore(const v1::CopiedSlice& rest, PayloadReader& bytes) {
  ASSIGN_OR_RETURN(const Payload values, bytes.Take(rest.before_bytes()));
  RETURN_IF_ERROR(CheckValues("the values before the latest step", values));
  ASSIGN_OR_RETURN(HostBuffer floats, HostBuffer::Create(state_.size()));
  values.CopyTo(floats.span());
  const auto owner = std::make_shared<HostBuffer>(std::move(floats));
  const absl::Span<const float> span = static_cast<const HostBuffer&>(*owner).span();
  before_ = {Step(rest.before_step()), Payload(span, owner), span, rest.before_version()};
  return absl::OkStatus();
}

absl::Status DenseSlice::CheckValues(absl::string_view what, const Payload& values) const {
  const size_t bytes = state_.size() * sizeof(float);
  if (values.size_bytes() == bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name(), ": expected ", bytes, " bytes of ", what,
                                                 ", got ", values.size_bytes()));
}

uint64_t DenseSlice::Hash() const {
  SliceSnapshot snapshot;
  Save(snapshot);
  snapshot.optimizer_state.push_back(std::move(snapshot.values));
  if (auto update = state_.ShareUpdate()) snapshot.optimizer_state.push_back(*std::move(update));
  uint64_t hash = 0;
  for (const Payload& array : snapshot.optimizer_state) {
    hash = XXH3_64bits_withSeed(array.piece().data(), array.size_bytes(), hash);
  }
  return hash;
}

ExchangeReply DenseSlice::ReplyWithValues(WorkerId worker, const ParkedPull& pull) {
  ExchangeReply reply = MakeReply(pull.learning_rate_divisor);
  if (pull.is_float32 || !codecs_.pull->is_lossy()) {
    reply.values = pull.is_float32 ? state_.Share() : state_.ShareReplied();
    return reply;
  }
  absl::StatusOr<WorkerCopies::Reply> encoded = EncodedReply(worker, pull);
  if (!encoded.ok()) return ErrorReply(Annotate(encoded.status(), name()));
  reply.values = std::move(encoded->values);
  reply.codec = encoded->codec;
  reply.copy = encoded->copy;
  return reply;
}

void DenseSlice::KeepValuesOf(Step step) {
  if (keeps_open_step_) before_ = {step, state_.Share(), state_.replied(), version()};
}

std::optional<ExchangeReply> DenseSlice::ReplyWithKept(const ParkedPull& pull) {
  if (!before_.has_value() || before_->step != pull.step) return std::nullopt;
  ExchangeReply reply = MakeReply(pull.learning_rate_divisor);
  reply.version = before_->version;
  reply.min_step = pull.step;
  reply.cut = 0;  // The worker has no state of a later step.
  reply.values = before_->values;
  if (pull.is_float32 || !codecs_.pull->is_lossy()) return reply;
  absl::StatusOr<Payload> encoded = encoded_values_.Encode(before_->span, before_->version);
  if (!encoded.ok()) return ErrorReply(Annotate(encoded.status(), name()));
  reply.values = *std::move(encoded);
  reply.codec = codecs_.pull->type();
  return reply;
}

absl::StatusOr<WorkerCopies::Reply> DenseSlice::EncodedReply(WorkerId worker,
                                                             const ParkedPull& pull) {
  if (IsTopk(codecs_.pull->type())) {
    const bool is_shared = IsWhole(pull.step);
    const uint64_t before = copies_.shared_number();
    absl::StatusOr<WorkerCopies::Reply> reply =
        copies_.Answer({worker, pull.copy, is_shared}, state_.Share(), state_.version());
    if (changes().is_on() && copies_.shared_number() != before) {
      v1::ReplicaChange change;
      change.mutable_shared_copy()->set_number(copies_.shared_number());
      changes().Note(Now(), std::move(change));
    }
    return reply;
  }
  WorkerCopies::Reply reply;
  ASSIGN_OR_RETURN(reply.values, encoded_values_.Encode(state_.replied(), state_.version()));
  reply.codec = codecs_.pull->type();
  return reply;
}

absl::Status DenseSlice::LoadOptimizerState(const OptimizerState& state) {
  const uint32_t arrays = state_.optimizer_arrays();
  const size_t bytes = state_.size() * sizeof(float);
  if (state.array >= arrays || state.values.size_bytes() != bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(name(), ": expected the optimizer's state as one of ", arrays, " arrays of ",
                     bytes, " bytes, got array ", state.array, " of ", state.values.size_bytes()));
  }
  const auto is_finite = [](size_t, absl::Span<const float> block) { return IsFinite(block); };
  if (state.steps > kMostOptimizerSteps || !state.values.ForEachBlock(is_finite)) {
    return absl::InvalidArgumentError(absl::StrCat(
        name(), ": expected a finite state of the optimizer after at most 2^62 steps, got ",
        state.steps, " steps, or a NaN or an infinity"));
  }
  state_.LoadOptimizerState(state.array, state.steps, state.values);
  return absl::OkStatus();
}

ExchangeReply DenseSlice::TakeOptimizerState(const OptimizerState& state) {
  // A slice that has been updated keeps its own: it comes from a checkpoint, or another process has
  // taken the place of worker 0.
  absl::Status status = version() == 0 ? LoadOptimizerState(state) : absl::OkStatus();
  return status.ok() ? MakeReply(/*learning_rate_divisor=*/0) : ErrorReply(std::move(status));
}

ExchangeReply DenseSlice::ReadOptimizerState(uint32_t array) const {
  std::vector<Payload> arrays = state_.ShareOptimizerState();
  if (array >= arrays.size()) {
    return ErrorReply(absl::InvalidArgumentError(
        absl::StrCat(name(), ": expected one of ", arrays.size(),
                     " arrays of the optimizer's state, got array ", array)));
  }
  ExchangeReply reply = MakeReply(/*learning_rate_divisor=*/0);
  reply.values = std::move(arrays[array]);
  reply.optimizer_steps = state_.optimizer_steps();
  return reply;
}

void DenseSlice::Save(SliceSnapshot& snapshot) const {
  snapshot.values = state_.Share();
  snapshot.optimizer_state = state_.ShareOptimizerState();
  snapshot.optimizer_steps = state_.optimizer_steps();
  snapshot.copy = copies_.shared();
}

absl::Status DenseSlice::Load(const SliceSnapshot& snapshot) {
  if (snapshot.copy.has_value()) RETURN_IF_ERROR(copies_.Restore(*snapshot.copy));
  return absl::OkStatus();
}

SliceMemory DenseSlice::memory() const {
  SliceMemory memory;
  memory.parameters = state_.values_bytes();
  memory.optimizer = state_.optimizer_bytes();
  memory.accumulators = kept().size_bytes();
  memory.copies = copies_.size_bytes() + encoded_values_.size_bytes();
  return memory;
}

}  // namespace capstan
