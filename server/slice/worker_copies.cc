#include "server/slice/worker_copies.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/codec/changed_values.h"
#include "common/tensor/host_buffer.h"
#include "server/slice/encoded_values.h"

namespace capstan {
namespace {

absl::Span<const float> FloatsOf(const Payload& values) {
  const Payload::Fragment piece = values.piece();
  return {reinterpret_cast<const float*>(piece.data()), piece.size() / sizeof(float)};
}

}  // namespace

WorkerCopies::~WorkerCopies() { DropOwnCopies(); }

absl::StatusOr<WorkerCopies::Reply> WorkerCopies::Answer(const Pull& pull, const Payload& values,
                                                         uint64_t version) {
  return pull.is_shared ? AnswerShared(pull, values, version) : AnswerOne(pull, values, version);
}

absl::StatusOr<WorkerCopies::Copy> WorkerCopies::MakeCopy(const Payload& values, uint64_t version) {
  ASSIGN_OR_RETURN(HostBuffer memory, HostBuffer::Create(values.size_bytes() / sizeof(float)));
  values.CopyTo(memory.span());
  return Copy{SliceValues(std::move(memory)), /*number=*/0, version, /*base=*/0, {}};
}

absl::StatusOr<WorkerCopies::Reply> WorkerCopies::AnswerShared(const Pull& pull,
                                                               const Payload& values,
                                                               uint64_t version) {
  DropOwnCopies();
  if (!shared_.has_value()) {
    ASSIGN_OR_RETURN(shared_, MakeCopy(values, version));
    shared_->number = ++last_number_;
  }
  // Otherwise it has been sent with these values before.
  if (shared_->version != version) RETURN_IF_ERROR(Advance(FloatsOf(values), version, *shared_));
  const uint64_t number = shared_->number;
  if (pull.copy != 0 && pull.copy == shared_->base) return shared_->difference;
  // Nobody had a gradient since the worker's last pull.
  if (pull.copy == number) return Reply{Payload(), CodecType::kChanged, number};
  return Reply{shared_->values.Share(), CodecType::kFloat32, number};
}

absl::StatusOr<WorkerCopies::Reply> WorkerCopies::AnswerOne(const Pull& pull, const Payload& values,
                                                            uint64_t version) {
  shared_.reset();
  auto found = own_.find(pull.worker);
  if (found != own_.end() && pull.copy == found->second.number) {
    RETURN_IF_ERROR(Advance(FloatsOf(values), version, found->second));
    return std::exchange(found->second.difference, {});
  }
  Forget(pull.worker);
  if (budget_->Take(values.size_bytes())) {
    absl::StatusOr<Copy> copy = MakeCopy(values, version);
    if (copy.ok()) {
      copy->number = ++last_number_;
      own_.emplace(pull.worker, *std::move(copy));
      return Reply{values, CodecType::kFloat32, last_number_};
    }
    budget_->Return(values.size_bytes());
  }
  return Reply{values, CodecType::kFloat32, /*copy=*/0};
}

absl::Status WorkerCopies::Advance(absl::Span<const float> values, uint64_t version, Copy& copy) {
  const SliceValues::Change change = copy.values.BeginChange();
  if (change.to.data() != change.from.data()) {
    std::copy(change.from.begin(), change.from.end(), change.to.begin());
  }
  Reply reply;
  const size_t changed = ChangedBytes(CountChanged(change.to, values));
  if (changed <= MostChangedBytes(codec_, values.size())) {
    const EncodedMemory memory(changed);
    EncodeChanged(change.to, values, memory.bytes());
    ApplyChanged(memory.bytes(), change.to);
    reply.codec = CodecType::kChanged;
    reply.values = memory.payload();
  } else {
    ASSIGN_OR_RETURN(reply.values, EncodeDifference(values, version, change.to));
    codec_.DecodeAdd(reply.values.piece(), values.size(), /*begin=*/0, change.to);
    reply.codec = codec_.type();
  }
  reply.copy = ++last_number_;
  copy.base = std::exchange(copy.number, reply.copy);
  copy.version = version;
  copy.difference = std::move(reply);
  return absl::OkStatus();
}

absl::StatusOr<Payload> WorkerCopies::EncodeDifference(absl::Span<const float> values,
                                                       uint64_t version,
                                                       absl::Span<const float> copy) const {
  ASSIGN_OR_RETURN(HostBuffer difference, HostBuffer::Create(values.size()));
  std::transform(values.begin(), values.end(), copy.begin(), difference.data(),
                 [](float value, float old) { return value - old; });
  return EncodeValues(codec_, draws_, difference.span(), version);
}

void WorkerCopies::Forget(WorkerId worker) {
  const auto found = own_.find(worker);
  if (found == own_.end()) return;
  budget_->Return(found->second.values.size_bytes());
  own_.erase(found);
}

void WorkerCopies::DropOwnCopies() {
  while (!own_.empty()) Forget(own_.begin()->first);
}

uint64_t WorkerCopies::size_bytes() const {
  uint64_t bytes = shared_.has_value() ? shared_->values.held_bytes() : 0;
  for (const auto& [worker, copy] : own_) bytes += copy.values.held_bytes();
  return bytes;
}

std::optional<SliceSnapshot::WorkerCopy> WorkerCopies::shared() const {
  if (!shared_.has_value()) return std::nullopt;
  return SliceSnapshot::WorkerCopy{shared_->values.Share(), shared_->version};
}

void WorkerCopies::BeginEpoch(Epoch epoch) {
  last_number_ = std::max(last_number_, epoch.value() << 32);
}

absl::Status WorkerCopies::Follow(const Payload& values, uint64_t version, uint64_t number) {
  if (number == 0) {
    shared_.reset();
    return absl::OkStatus();
  }
  last_number_ = number - 1;
  return Answer({WorkerId(), /*copy=*/0, /*is_shared=*/true}, values, version).status();
}

absl::Status WorkerCopies::Restore(const SliceSnapshot::WorkerCopy& shared) {
  ASSIGN_OR_RETURN(shared_, MakeCopy(shared.values, shared.version));
  shared_->number = ++last_number_;
  return absl::OkStatus();
}

}  // namespace capstan
