#include "server/slice/sparse_slice.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/codec/key_list.h"
#include "common/routing/key_shard.h"
#include "common/tensor/slicing.h"
#include "server/slice/encoded_gradient.h"
#include "server/slice/encoded_values.h"
#include "server/slice/row_mean.h"

namespace capstan {
namespace {

// A worker has the keys of its step, and those of the next one, fetched ahead.
constexpr size_t kMostPulled = 2;

uint64_t BytesOf(const std::vector<uint64_t>& keys) { return keys.size() * sizeof(uint64_t); }

}  // namespace

absl::StatusOr<std::unique_ptr<SparseSlice>> SparseSlice::Create(Options options) {
  options.rows.keeps_before = options.keeps_open_step;
  ASSIGN_OR_RETURN(std::unique_ptr<SparseRows> rows,
                   SparseRows::Create(options.rows, options.optimizer));
  return std::unique_ptr<SparseSlice>(new SparseSlice(std::move(options), std::move(rows)));
}

SparseSlice::SparseSlice(Options options, std::unique_ptr<SparseRows> rows)
    : Slice(std::move(options.slice), /*own_arrays=*/0, /*size=*/0),
      optimizer_(*options.optimizer),
      shard_(options.shard),
      shard_count_(options.shard_count),
      codecs_(std::move(options.codecs)),
      pull_draws_(options.pull_draws),
      key_memory_(*options.key_memory),
      keeps_open_step_(options.keeps_open_step),
      rows_(std::move(rows)) {}

SparseSlice::~SparseSlice() {
  while (!pulled_.empty()) Forget(pulled_.begin()->first);
}

absl::StatusOr<RowKeys> SparseSlice::DecodeKeys(const KeyList& list) const {
  // A peer cannot make the server take memory for keys that it did not send.
  const size_t most = kMaxSliceBytes / sizeof(float) / dim();
  if (list.rows > most || list.bytes.size_bytes() < LeastKeyListBytes(list.rows)) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected at most ", most, " rows, and ", LeastKeyListBytes(list.rows),
                     " bytes or more of their keys, got ", list.rows, " rows and ",
                     list.bytes.size_bytes(), " bytes; use smaller batches"));
  }
  const Payload bytes = list.bytes.InOnePiece();
  if (const uint64_t hash = HashKeyList(bytes.piece()); hash != list.hash) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a key list of hash ", list.hash, ", got ", hash));
  }
  auto keys = std::make_shared<std::vector<uint64_t>>(list.rows);
  ASSIGN_OR_RETURN(const size_t used, DecodeKeyList(bytes.piece(), absl::MakeSpan(*keys)));
  if (used != bytes.size_bytes()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected ", list.rows, " keys in ", bytes.size_bytes(), " bytes, but they take ", used));
  }
  RETURN_IF_ERROR(CheckKeys(*keys));
  return keys;
}

absl::StatusOr<RowKeys> SparseSlice::KeysOf(WorkerId worker, const KeyList& list) const {
  if (!list.bytes.empty()) {
    absl::StatusOr<RowKeys> keys = DecodeKeys(list);
    return keys.ok() ? keys : Annotate(keys.status(), name());
  }
  if (list.rows == 0) return std::make_shared<const std::vector<uint64_t>>();
  if (const auto found = pulled_.find(worker); found != pulled_.end()) {
    for (const PulledKeys& pulled : found->second) {
      if (pulled.hash == list.hash && pulled.keys->size() == list.rows) return pulled.keys;
    }
  }
  return absl::NotFoundError(absl::StrCat(name(), ": the keys of hash ", list.hash,
                                          ", pulled before by worker ", worker.value(),
                                          ", are not here any more: send them with the request"));
}

absl::Status SparseSlice::ReadRows(WorkerId worker, RowStep&& step, CheckedStep* read) {
  if (step.pull.has_value()) {
    ParkedPull& pull = read->pull.emplace();
    pull.step = step.pull->step;
    pull.is_float32 = step.pull->is_float32;
    ASSIGN_OR_RETURN(pull.keys, KeysOf(worker, step.pulled_keys));
  }
  if (step.push.has_value()) {
    if (const auto momentum = step.push->rates.momentum; momentum.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          name(), ": expected no momentum, because the table is sparse, got ", *momentum));
    }
    read->push = HeadOf(worker, *step.push);
    RETURN_IF_ERROR(ReadGradient(worker, step, &*read->push));
  }
  if (read->pull.has_value()) {
    // The worker pushes no step twice: the keys of steps that it has pushed can go.
    DropPulled(worker, std::min(steps().completed(worker), read->pull->step) + -1);
    NotePulled(worker, {read->pull->step, step.pulled_keys.hash, read->pull->keys});
  }
  return absl::OkStatus();
}

absl::Status SparseSlice::ReadGradient(WorkerId worker, RowStep& step, CheckedPush* read) {
  StepPush& push = *step.push;
  if (!push.gradient.has_value() || IsAgain(worker, push)) return absl::OkStatus();
  ASSIGN_OR_RETURN(read->keys, KeysOf(worker, step.pushed_keys));
  const Codec& codec = codecs_.PushOf(push.step, push.gradient->codec);
  absl::StatusOr<EncodedGradient> gradient =
      EncodedGradient::Check(*std::move(push.gradient), codec, read->keys->size() * dim());
  if (!gradient.ok()) return Annotate(gradient.status(), name());
  read->gradient = *std::move(gradient);
  return absl::OkStatus();
}

void SparseSlice::NotePulled(WorkerId worker, PulledKeys pull) {
  if (pull.keys->empty()) return;
  std::vector<PulledKeys>& pulled = pulled_[worker];
  for (size_t i = 0; i < pulled.size(); ++i) {
    if (pulled[i].hash != pull.hash) continue;
    pulled[i].step = std::max(pulled[i].step, pull.step);
    std::rotate(pulled.begin() + static_cast<ptrdiff_t>(i),
                pulled.begin() + static_cast<ptrdiff_t>(i) + 1, pulled.end());
    return;
  }
  // If a step has many pulls, the last ones are kept.
  if (pulled.size() == kMostPulled) {
    key_memory_.Return(BytesOf(*pulled.front().keys));
    pulled.erase(pulled.begin());
  }
  if (key_memory_.Take(BytesOf(*pull.keys))) pulled.push_back(std::move(pull));
}

void SparseSlice::DropPulled(WorkerId worker, Step step) {
  const auto found = pulled_.find(worker);
  if (found == pulled_.end()) return;
  std::vector<PulledKeys>& pulled = found->second;
  for (size_t i = pulled.size(); i-- > 0;) {
    if (pulled[i].step > step) continue;
    key_memory_.Return(BytesOf(*pulled[i].keys));
    pulled.erase(pulled.begin() + static_cast<ptrdiff_t>(i));
  }
  if (pulled.empty()) pulled_.erase(found);
}

void SparseSlice::Forget(WorkerId worker) {
  DropPulled(worker, Step(std::numeric_limits<int64_t>::max()));
}

void SparseSlice::Apply(const CheckedPush& push, uint64_t learning_rate_divisor) {
  if (const auto in_place = push.gradient->InPlace(); in_place.has_value()) {
    return Update(*push.keys, *in_place, push.step, learning_rate_divisor, push.rates);
  }
  Update(*push.keys, push.gradient->Decoded(), push.step, learning_rate_divisor, push.rates);
}

void SparseSlice::Update(absl::Span<const uint64_t> keys, absl::Span<const float> gradients,
                         Step step, uint64_t divisor, const Rates& rates) {
  ++version_;
  const double own_rate = optimizer_.learning_rate();
  const double factor = rates.learning_rate.value_or(own_rate) / own_rate;
  rows_->Push(keys, gradients, step, factor / static_cast<double>(divisor));
}

void SparseSlice::ApplyMean(Step step, PushesOfStep pushes, MeanForCopy* copy) {
  MeanOfRows mean(dim(), pushes.size());
  std::deque<std::vector<float>> decoded;
  for (const CheckedPush* const push : pushes) {
    if (!push->gradient.has_value()) continue;
    const auto in_place = push->gradient->InPlace();
    mean.Add(*push->keys,
             in_place.has_value() ? *in_place : decoded.emplace_back(push->gradient->Decoded()));
  }
  std::vector<uint64_t> keys = mean.Merge();
  // The same learning rate in all shards, whoever has rows in them.
  Update(keys, mean.means(), step, /*divisor=*/1, pushes[0]->rates);
  const size_t bytes = mean.means().size() * sizeof(float);
  if (copy == nullptr || bytes + BytesOf(keys) >= capstan::BytesOf(pushes)) return;
  const std::shared_ptr<uint8_t> memory = copy->pool->Take(bytes);
  const absl::Span<float> values(reinterpret_cast<float*>(memory.get()), mean.means().size());
  std::copy(mean.means().begin(), mean.means().end(), values.begin());
  copy->values = Payload(values, memory);
  copy->keys = std::move(keys);
}

absl::StatusOr<CheckedPush> SparseSlice::ReadNoted(const v1::PushHead& head,
                                                   PayloadReader& payload) {
  CheckedStep read;
  const WorkerId worker(head.worker());
  ASSIGN_OR_RETURN(RowStep step, ReadRowPush(head, payload));
  // A push from a checkpoint is float32, whatever the table's codec.
  if (head.codec() != v1::FLOAT32) {
    RETURN_IF_ERROR(ReadRows(worker, std::move(step), &read));
    return *std::move(read.push);
  }
  CheckedPush push = HeadOf(worker, *step.push);
  ASSIGN_OR_RETURN(push.keys, KeysOf(worker, step.pushed_keys));
  const Payload& values = step.push->gradient->bytes;
  if (values.size_bytes() != push.keys->size() * dim() * sizeof(float)) {
    return absl::InvalidArgumentError(absl::StrCat(name(), ": expected ", push.keys->size(),
                                                   " rows, got ", values.size_bytes(), " bytes"));
  }
  push.gradient = EncodedGradient(values);
  return push;
}

absl::StatusOr<CheckedPush> SparseSlice::ReadMean(const v1::AppliedStep& step,
                                                  PayloadReader& payload) const {
  if (step.pushes().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(name(), ": the mean of a step without pushes"));
  }
  const v1::PushHead& first = step.pushes(0);
  CheckedPush mean;
  mean.step = Step(step.step());
  mean.worker = WorkerId(first.worker());
  if (first.has_learning_rate()) mean.rates.learning_rate = first.learning_rate();
  const uint64_t bytes = uint64_t{step.mean_rows()} * dim() * sizeof(float);
  ASSIGN_OR_RETURN(Payload values, payload.Take(bytes));
  mean.gradient = EncodedGradient(std::move(values));
  ASSIGN_OR_RETURN(const Payload list, payload.Take(step.mean_key_bytes()));
  ASSIGN_OR_RETURN(std::vector<uint64_t> keys, capstan::DecodeKeys(step.mean_rows(), list));
  RETURN_IF_ERROR(Annotate(CheckKeys(keys), name()));
  mean.keys = std::make_shared<const std::vector<uint64_t>>(std::move(keys));
  return mean;
}

absl::Status SparseSlice::FollowOwn(const v1::ReplicaChange& change, const Payload& payload) {
  if (change.kind_case() != v1::ReplicaChange::kTouchedRows) {
    return absl::InvalidArgumentError(
        absl::StrCat(name(), ": a change of kind ", change.kind_case(), " for a sparse table"));
  }
  const v1::TouchedRows& touched = change.touched_rows();
  if (touched.rows() > kMaxSliceBytes / sizeof(float) / dim() || touched.step() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name(), ": a touch of ", touched.rows(), " rows at step ", touched.step()));
  }
  ASSIGN_OR_RETURN(const std::vector<uint64_t> keys, capstan::DecodeKeys(touched.rows(), payload));
  std::vector<float> values(keys.size() * dim());
  rows_->Pull(keys, Step(touched.step()), absl::MakeSpan(values));
  return absl::OkStatus();
}

void SparseSlice::SaveForCopyLater(SliceSnapshot& snapshot) {
  snapshot.rows = std::make_shared<const SparseRowsSnapshot>(rows_->Head());
  snapshot.rows_cut = rows_->CutForCopy();
}

void SparseSlice::SaveForCopy(Copy& copy) const {
  if (!before_step_.has_value()) return;
  copy.rest.set_before_step(before_step_->value());
  copy.rest.set_before_version(before_version_);
  const auto bytes = std::make_shared<std::string>(rows_->SaveBefore());
  copy.rest.set_before_bytes(bytes->size());
  Payload payload{bytes};
  payload.Append({reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()});
  copy.rest_bytes.Append(payload);
}

absl::Status SparseSlice::LoadForCopy(const v1::CopiedSlice& rest, PayloadReader& bytes) {
  RETURN_IF_ERROR(Annotate(rows_->Reserve(rest.rows()), name()));
  if (!rest.has_before_step()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Payload saved, bytes.Take(rest.before_bytes()));
  const Payload piece = saved.InOnePiece();
  RETURN_IF_ERROR(Annotate(rows_->LoadBefore(piece.piece()), name()));
  before_step_ = Step(rest.before_step());
  before_version_ = rest.before_version();
  return absl::OkStatus();
}

ExchangeReply SparseSlice::ReplyWithValues(WorkerId /*worker*/, const ParkedPull& pull) {
  if (changes().is_on() && rows_->keeps_ages() && !pull.keys->empty()) {
    v1::ReplicaChange change;
    change.mutable_touched_rows()->set_step(pull.step.value());
    change.mutable_touched_rows()->set_rows(static_cast<uint32_t>(pull.keys->size()));
    changes().Note(Now(), std::move(change), EncodeKeys(*pull.keys, *changes().pool()));
  }
  return WithRows(MakeReply(pull.learning_rate_divisor), pull,
                  [&](absl::Span<float> values) { rows_->Pull(*pull.keys, pull.step, values); });
}

void SparseSlice::KeepValuesOf(Step step) {
  if (!keeps_open_step_) return;
  before_step_ = step;
  before_version_ = version_;
  rows_->ForgetBefore();
}

std::optional<ExchangeReply> SparseSlice::ReplyWithKept(const ParkedPull& pull) {
  if (before_step_ != pull.step) return std::nullopt;
  ExchangeReply reply = MakeReply(pull.learning_rate_divisor);
  reply.version = before_version_;
  reply.min_step = pull.step;
  return WithRows(std::move(reply), pull,
                  [&](absl::Span<float> values) { rows_->PullBefore(*pull.keys, values); });
}

ExchangeReply SparseSlice::WithRows(ExchangeReply reply, const ParkedPull& pull,
                                    absl::FunctionRef<void(absl::Span<float> values)> read) const {
  const size_t size = pull.keys->size() * dim();
  if (size == 0) return reply;
  const EncodedMemory memory(size * sizeof(float));
  const absl::Span<float> values(reinterpret_cast<float*>(memory.bytes().data()), size);
  read(values);
  if (pull.is_float32 || !codecs_.pull->is_lossy()) {
    reply.values = memory.payload();
    return reply;
  }
  absl::StatusOr<Payload> encoded = EncodeValues(*codecs_.pull, pull_draws_, values, reply.version);
  if (!encoded.ok()) return ErrorReply(Annotate(encoded.status(), name()));
  reply.values = *std::move(encoded);
  reply.codec = codecs_.pull->type();
  return reply;
}

absl::Status SparseSlice::SetInitialValues(const Payload& /*values*/) {
  return absl::InvalidArgumentError(
      absl::StrCat(name(), ": the initial values of a sparse table come from no worker"));
}

ExchangeReply SparseSlice::ReadOptimizerState(uint32_t /*array*/) const {
  return ErrorReply(absl::InvalidArgumentError(absl::StrCat(
      name(),
      ": expected a dense table for the optimizer's state; a sparse one has it in its rows")));
}

void SparseSlice::Save(SliceSnapshot& snapshot) const {
  snapshot.rows = std::make_shared<const SparseRowsSnapshot>(rows_->Snapshot());
}

absl::Status SparseSlice::CheckKeys(absl::Span<const uint64_t> keys) const {
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i > 0 && keys[i] <= keys[i - 1]) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected ascending keys, got ", keys[i], " after ", keys[i - 1]));
    }
    const ShardId shard = ShardOfKey(keys[i], shard_count_);
    if (shard == shard_) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "key ", keys[i], " belongs to shard ", shard.value(), ", not to shard ", shard_.value()));
  }
  return absl::OkStatus();
}

absl::Status SparseSlice::CheckSnapshot(const SliceSnapshot& snapshot) const {
  RETURN_IF_ERROR(CheckKeys(snapshot.rows->keys));
  for (const SliceSnapshot::KeptPush& push : snapshot.kept) {
    if (push.is_empty) continue;
    RETURN_IF_ERROR(CheckKeys(*push.keys));
    const size_t bytes = push.keys->size() * dim() * sizeof(float);
    if (push.gradient.size_bytes() == bytes) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "expected ", bytes, " bytes in a kept push, got ", push.gradient.size_bytes()));
  }
  return absl::OkStatus();
}

absl::Status SparseSlice::Load(const SliceSnapshot& snapshot) {
  absl::Status status = CheckSnapshot(snapshot);
  if (status.ok() && !snapshot.rows_follow) status = rows_->Restore(*snapshot.rows);
  RETURN_IF_ERROR(Annotate(status, name()));
  version_ = snapshot.version;
  return absl::OkStatus();
}

absl::Status SparseSlice::AddCopiedRows(const SparseRowsSnapshot& rows, bool is_last) {
  RETURN_IF_ERROR(CheckKeys(rows.keys));
  return rows_->RestorePart(rows, is_last);
}

SliceMemory SparseSlice::memory() const {
  SliceMemory memory;
  memory.rows = rows_->size();
  const size_t floats = dim() + optimizer_.state_floats();
  const size_t bytes = rows_->bytes();
  memory.optimizer = bytes / floats * optimizer_.state_floats();
  memory.parameters = bytes - memory.optimizer;
  memory.accumulators = kept().size_bytes();
  memory.copies = rows_->cut_bytes();
  for (const auto& [worker, pulled] : pulled_) {
    for (const PulledKeys& keys : pulled) memory.copies += BytesOf(*keys.keys);
  }
  return memory;
}

}  // namespace capstan
