#include "server/shard/sparse_slice.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/codec/key_list.h"
#include "common/routing/key_shard.h"
#include "common/tensor/slicing.h"
#include "server/shard/encoded_gradient.h"
#include "server/shard/encoded_values.h"

namespace capstan {
namespace {

// A worker has the keys of its step, and those of the next one, fetched ahead.
constexpr size_t kMostPulled = 2;

uint64_t BytesOf(const std::vector<uint64_t>& keys) { return keys.size() * sizeof(uint64_t); }

// Sums the gradients of each key, in order of worker, and divides by the number of workers.
class MeanOfRows {
 public:
  MeanOfRows(size_t dim, size_t num_workers) : dim_(dim), num_workers_(num_workers) {}

  void Add(absl::Span<const uint64_t> keys, absl::Span<const float> gradient) {
    pushes_.push_back({keys, gradient.data()});
  }

  // Returns all keys, ascending. Their means are in means().
  std::vector<uint64_t> Merge() {
    std::vector<uint64_t> keys;
    means_.clear();
    while (const std::optional<uint64_t> key = NextKey()) {
      keys.push_back(*key);
      means_.resize(means_.size() + dim_);
      float* const mean = means_.data() + means_.size() - dim_;
      for (Push& push : pushes_) {
        if (push.keys.empty() || push.keys.front() != *key) continue;
        for (size_t i = 0; i < dim_; ++i) mean[i] += push.gradient[i];
        push.keys.remove_prefix(1);
        push.gradient += dim_;
      }
      const auto count = static_cast<float>(num_workers_);
      for (size_t i = 0; i < dim_; ++i) mean[i] /= count;
    }
    return keys;
  }
  absl::Span<const float> means() const { return means_; }

 private:
  // What is left of a worker's push.
  struct Push {
    absl::Span<const uint64_t> keys;
    const float* gradient;
  };

  std::optional<uint64_t> NextKey() const {
    std::optional<uint64_t> next;
    for (const Push& push : pushes_) {
      if (!push.keys.empty() && (!next || push.keys.front() < *next)) next = push.keys.front();
    }
    return next;
  }

  const size_t dim_;
  const size_t num_workers_;
  std::vector<Push> pushes_;
  std::vector<float> means_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SparseSlice>> SparseSlice::Create(Options options) {
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
      rows_(std::move(rows)) {}

SparseSlice::~SparseSlice() {
  while (!pulled_.empty()) Forget(pulled_.begin()->first);
}

absl::StatusOr<SparseSlice::Keys> SparseSlice::DecodeKeys(const Payload& list,
                                                          const RowBatch::Part& part) const {
  // A peer cannot make the server take memory for keys that it did not send.
  const size_t most = kMaxSliceBytes / sizeof(float) / dim();
  if (part.rows > most || list.size_bytes() < LeastKeyListBytes(part.rows)) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected at most ", most, " rows, and ", LeastKeyListBytes(part.rows),
                     " bytes or more of their keys, got ", part.rows, " rows and ",
                     list.size_bytes(), " bytes; use smaller batches"));
  }
  const Payload bytes = list.InOnePiece();
  if (const uint64_t hash = HashKeyList(bytes.piece()); hash != part.keys_hash) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a key list of hash ", part.keys_hash, ", got ", hash));
  }
  auto keys = std::make_shared<std::vector<uint64_t>>(part.rows);
  ASSIGN_OR_RETURN(const size_t used, DecodeKeyList(bytes.piece(), absl::MakeSpan(*keys)));
  if (used != bytes.size_bytes()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected ", part.rows, " keys in ", bytes.size_bytes(), " bytes, but they take ", used));
  }
  RETURN_IF_ERROR(CheckKeys(*keys));
  return keys;
}

absl::StatusOr<SparseSlice::Keys> SparseSlice::TakeKeys(ExchangeRequest& request,
                                                        const RowBatch::Part& part) {
  const size_t bytes = request.gradient.size_bytes();
  if (part.key_bytes > bytes) {
    return absl::InvalidArgumentError(absl::StrCat(name(), ": expected ", part.key_bytes,
                                                   " bytes of keys, got a payload of ", bytes));
  }
  if (part.key_bytes > 0) {
    const size_t rest = bytes - part.key_bytes;
    absl::StatusOr<Keys> keys = DecodeKeys(request.gradient.Subrange(rest, part.key_bytes), part);
    if (!keys.ok()) return Annotate(keys.status(), name());
    request.gradient = request.gradient.Subrange(0, rest);
    return keys;
  }
  if (part.rows == 0) return std::make_shared<const std::vector<uint64_t>>();
  if (const auto found = pulled_.find(request.worker); found != pulled_.end()) {
    for (const PulledKeys& pulled : found->second) {
      if (pulled.hash == part.keys_hash && pulled.keys->size() == part.rows) return pulled.keys;
    }
  }
  return absl::NotFoundError(absl::StrCat(name(), ": the keys of hash ", part.keys_hash,
                                          ", pulled before by worker ", request.worker.value(),
                                          ", are not here any more: send them with the request"));
}

absl::StatusOr<ParkedPull> SparseSlice::TakePull(ExchangeRequest& request) {
  ParkedPull pull;
  pull.step = *request.pull_step;
  pull.is_float32 = request.pulls_float32;
  ASSIGN_OR_RETURN(pull.keys, TakeKeys(request, request.rows.pull));
  // Those of steps whose push was empty.
  DropPulled(request.worker, std::min(steps().completed(request.worker), pull.step) + -1);
  NotePulled(request.worker, {pull.step, request.rows.pull.keys_hash, pull.keys});
  return pull;
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

absl::StatusOr<uint64_t> SparseSlice::PushGradient(ExchangeRequest& request) {
  const Step step = *request.push_step;
  ASSIGN_OR_RETURN(const Keys keys, TakeKeys(request, request.rows.push));
  const size_t size = keys->size() * dim();
  absl::StatusOr<EncodedGradient> encoded =
      EncodedGradient::Take(request, codecs_.PushOf(step, request.codec), size);
  if (!encoded.ok()) return Annotate(encoded.status(), name());
  RETURN_IF_ERROR(CheckPush(request));
  if (checks_finite() && !encoded->IsFinite()) return NotFinite(request);
  DropPulled(request.worker, step);
  const auto in_place = encoded->InPlace();
  if (in_place.has_value() && !IsKept(step)) {
    const uint64_t divisor = DivisorOf(request.base_version);
    Apply(*keys, *in_place, step, divisor, request.learning_rate);
    return divisor;
  }
  std::vector<float> gradient(size);
  encoded->ForEachBlock([&gradient](size_t begin, absl::Span<const float> block) {
    std::copy(block.begin(), block.end(), gradient.begin() + static_cast<ptrdiff_t>(begin));
  });
  if (IsKept(step)) {
    kept_[step][request.worker] = {keys, std::move(gradient), request.base_version,
                                   request.learning_rate};
    return 0;
  }
  const uint64_t divisor = DivisorOf(request.base_version);
  Apply(*keys, gradient, step, divisor, request.learning_rate);
  return divisor;
}

void SparseSlice::Apply(absl::Span<const uint64_t> keys, absl::Span<const float> gradients,
                        Step step, uint64_t divisor, std::optional<double> learning_rate) {
  ++version_;
  const double factor = learning_rate.has_value() ? *learning_rate / optimizer_.learning_rate() : 1;
  rows_->Push(keys, gradients, step, factor / static_cast<double>(divisor));
}

void SparseSlice::KeepNothing(const ExchangeRequest& request) {
  KeptPush& kept = kept_[*request.push_step][request.worker];
  kept = {};
  kept.learning_rate = request.learning_rate;
}

std::optional<Step> SparseSlice::FirstKept() const {
  if (kept_.empty()) return std::nullopt;
  return kept_.begin()->first;
}

void SparseSlice::ApplyOne(Step step) {
  KeptStep& of_step = kept_.at(step);
  const KeptPush push = std::move(of_step.extract(of_step.begin()).mapped());
  if (of_step.empty()) kept_.erase(step);
  if (push.keys == nullptr) return;
  Apply(*push.keys, push.gradient, step, DivisorOf(push.base_version), push.learning_rate);
}

void SparseSlice::ApplyMean(Step step) {
  const KeptStep of_step = std::move(kept_.extract(step).mapped());
  MeanOfRows mean(dim(), of_step.size());
  bool has_gradient = false;
  for (const auto& [worker, push] : of_step) {
    if (push.keys == nullptr) continue;
    has_gradient = true;
    mean.Add(*push.keys, push.gradient);
  }
  // All live workers have done the step, and none has a gradient: nothing changes.
  if (!has_gradient) return;
  const std::vector<uint64_t> keys = mean.Merge();
  // The same one in all shards, whoever has rows in them.
  const std::optional<double> learning_rate = of_step.begin()->second.learning_rate;
  Apply(keys, mean.means(), step, /*divisor=*/1, learning_rate);
}

ExchangeReply SparseSlice::ReplyWithValues(WorkerId /*worker*/, const ParkedPull& pull) {
  ExchangeReply reply = MakeReply(pull.learning_rate_divisor);
  const size_t size = pull.keys->size() * dim();
  if (size == 0) return reply;
  const EncodedMemory memory(size * sizeof(float));
  const absl::Span<float> values(reinterpret_cast<float*>(memory.bytes().data()), size);
  rows_->Pull(*pull.keys, pull.step, values);
  if (pull.is_float32 || !codecs_.pull->is_lossy()) {
    reply.values = memory.payload();
    return reply;
  }
  absl::StatusOr<Payload> encoded = EncodeValues(*codecs_.pull, pull_draws_, values, version_);
  if (!encoded.ok()) return ErrorReply(Annotate(encoded.status(), name()));
  reply.values = *std::move(encoded);
  reply.codec = codecs_.pull->type();
  return reply;
}

absl::Status SparseSlice::SetInitialValues(const ExchangeRequest& /*request*/) {
  return absl::InvalidArgumentError(
      absl::StrCat(name(), ": the initial values of a sparse table come from no worker"));
}

void SparseSlice::Save(SliceSnapshot& snapshot) const {
  snapshot.rows = std::make_shared<const SparseRowsSnapshot>(rows_->Snapshot());
  for (const auto& [step, of_step] : kept_) {
    for (const auto& [worker, kept] : of_step) {
      SliceSnapshot::KeptPush& push = snapshot.kept.emplace_back();
      push.step = step;
      push.worker = worker;
      push.base_version = kept.base_version;
      push.learning_rate = kept.learning_rate;
      push.is_empty = kept.keys == nullptr;
      if (push.is_empty) continue;
      push.keys = kept.keys;
      const auto copy = std::make_shared<std::vector<float>>(kept.gradient);
      push.gradient = Payload(*copy, copy);
    }
  }
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
  if (status.ok()) status = rows_->Restore(*snapshot.rows);
  RETURN_IF_ERROR(Annotate(status, name()));
  version_ = snapshot.version;
  for (const SliceSnapshot::KeptPush& push : snapshot.kept) {
    KeptPush& kept = kept_[push.step][push.worker];
    kept.base_version = push.base_version;
    kept.learning_rate = push.learning_rate;
    if (push.is_empty) continue;
    kept.keys = push.keys;
    kept.gradient.resize(push.keys->size() * dim());
    push.gradient.CopyTo(absl::MakeSpan(kept.gradient));
  }
  return absl::OkStatus();
}

SliceMemory SparseSlice::memory() const {
  SliceMemory memory;
  memory.rows = rows_->size();
  const size_t floats = dim() + optimizer_.state_floats();
  const size_t bytes = rows_->bytes();
  memory.optimizer = bytes / floats * optimizer_.state_floats();
  memory.parameters = bytes - memory.optimizer;
  for (const auto& [step, of_step] : kept_) {
    for (const auto& [worker, push] : of_step) {
      if (push.keys == nullptr) continue;
      memory.accumulators += BytesOf(*push.keys) + push.gradient.size() * sizeof(float);
    }
  }
  for (const auto& [worker, pulled] : pulled_) {
    for (const PulledKeys& keys : pulled) memory.copies += BytesOf(*keys.keys);
  }
  return memory;
}

}  // namespace capstan
