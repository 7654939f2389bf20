#include "worker/program/program_collectives.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/exchange/parameter_endpoint.h"

namespace capstan {
namespace {

// A wait of this length may be for an operation of another worker.
constexpr absl::Duration kLongWait = absl::Seconds(1);

Payload CopyOf(absl::Span<const uint8_t> values) {
  const auto copy = std::make_shared<std::vector<uint8_t>>(values.begin(), values.end());
  Payload payload{copy};
  payload.Append(*copy);
  return payload;
}

bool IsSame(const Collective& a, const Collective& b) {
  return a.type == b.type && a.dtype == b.dtype && a.shape == b.shape && a.root == b.root;
}

// INVALID_ARGUMENT: the operation cannot have these elements, or they have other bytes.
absl::Status CheckValues(const ProgramCollectives::Operation& operation, size_t bytes) {
  size_t expected = 0;
  if (HasElements(operation.type)) {
    RETURN_IF_ERROR(CheckElements(operation.shape, operation.dtype));
    expected = NumElements(operation.shape) * BytesOf(operation.dtype);
  }
  if (bytes == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("expected ", expected, " bytes of values, got ", bytes));
}

}  // namespace

ProgramCollectives::ProgramCollectives(Clock* clock, ProgramSteps* steps, const v1::JobSpec& job,
                                       bool is_replaceable)
    : clock_(*clock),
      steps_(*steps),
      num_workers_(job.cluster().num_workers()),
      is_bsp_(job.consistency().mode() == v1::ConsistencySpec::BSP),
      stays_(job.stay()),
      is_replaceable_(is_replaceable),
      is_program_(job.model().type() == v1::ModelSpec::PROGRAM) {}

absl::Status ProgramCollectives::Run(const Operation& operation, absl::Span<uint8_t> values,
                                     absl::Duration limit) {
  RETURN_IF_ERROR(CheckValues(operation, values.size()));
  const bool is_broadcast = operation.type == CollectiveType::kBroadcast;
  if (is_broadcast && operation.root.value() >= num_workers_) {
    return absl::InvalidArgumentError(absl::StrCat("root: expected a worker's rank below ",
                                                   num_workers_, ", got ", operation.root.value()));
  }
  if (operation.type == CollectiveType::kMean && operation.dtype == CollectiveDtype::kInt64) {
    return absl::InvalidArgumentError(
        "expected floats for a mean, got int64: take the sum, or convert them");
  }
  Collective part;
  part.type = operation.type;
  part.dtype = operation.dtype;
  part.shape = operation.shape;
  part.root = operation.root;
  part.values = CopyOf(values);
  const absl::Time deadline = clock_.Now() + limit;
  absl::StatusOr<Payload> done = Do(std::move(part), deadline);
  if (!done.ok()) return steps_.Explain(done.status(), deadline);
  const Payload& result = *done;
  if (result.size_bytes() != values.size()) {
    return steps_.Lose(absl::InternalError(absl::StrCat("a server sent ", result.size_bytes(),
                                                        " bytes as the result of an operation on ",
                                                        values.size())));
  }
  result.CopyTo(values);
  return absl::OkStatus();
}

absl::StatusOr<bool> ProgramCollectives::Join(absl::Duration limit) {
  Collective part;
  part.type = CollectiveType::kJoin;
  const absl::Time deadline = clock_.Now() + limit;
  const absl::StatusOr<Payload> done = Do(std::move(part), deadline);
  if (!done.ok()) return steps_.Explain(done.status(), deadline);
  int64_t next = -1;
  if (done->size_bytes() == sizeof(next)) {
    done->CopyTo({reinterpret_cast<uint8_t*>(&next), sizeof(next)});
  }
  if (next < 0) return true;
  if (!stays_) steps_.AgreeToEnd();
  MutexLock lock(&mu_);
  number_ = static_cast<uint64_t>(next);
  is_joined_ = false;
  return false;
}

absl::StatusOr<bool> ProgramCollectives::Stop(bool flag, absl::Duration limit) {
  int64_t any = flag ? 1 : 0;
  RETURN_IF_ERROR(Run({CollectiveType::kMax, CollectiveDtype::kInt64, WorkerId(0)},
                      {reinterpret_cast<uint8_t*>(&any), sizeof(any)}, limit));
  if (any != 0 && !stays_) steps_.AgreeToEnd();
  return any != 0;
}

absl::Status ProgramCollectives::CheckMayRun() const {
  RETURN_IF_ERROR(steps_.CheckIsWorker());
  if (!is_bsp_) {
    return absl::FailedPreconditionError(
        "operations of all workers (all_reduce, broadcast, barrier, stop, join) need "
        "--consistency=bsp: under SSP and async the workers are at different steps");
  }
  if (steps_.has_ended_steps()) {
    return absl::FailedPreconditionError(
        "the worker has finished; do operations of all workers before");
  }
  return absl::OkStatus();
}

absl::Status ProgramCollectives::CheckIsWithinStep(CollectiveType type) const {
  if (!is_replaceable_ || type == CollectiveType::kJoin || steps_.IsWithinStep()) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      "a replaceable program does operations of all workers within its steps, or after the last of "
      "--steps: after it has waited for values, and before it ends the step. In PyTorch: between "
      "the forward pass and ct.step(); after a step another process would not know of them");
}

absl::StatusOr<Payload> ProgramCollectives::Do(Collective part, absl::Time deadline) {
  RETURN_IF_ERROR(CheckMayRun());
  ASSIGN_OR_RETURN(const ProgramSteps::StoreLease store, steps_.LeaseStore());
  // A worker that leaves begins no step, whatever its program does.
  if (store == nullptr) return steps_.WithoutStore(deadline);
  RETURN_IF_ERROR(CheckIsWithinStep(part.type));
  ASSIGN_OR_RETURN(const std::shared_ptr<Sent> sent, Send(std::move(part), *store));
  const absl::StatusOr<bool> is_done = store->WaitForCollectives(deadline - clock_.Now());
  if (!is_done.ok()) return steps_.Lose(is_done.status());
  if (!*is_done) {
    return absl::DeadlineExceededError(
        "not all workers have come to this operation; call again to go on waiting");
  }
  {
    MutexLock lock(&mu_);
    if (under_way_ == sent) {
      under_way_ = nullptr;
      ++number_;
    }
  }
  if (absl::IsOutOfRange(sent->refusal)) {
    return steps_.LoseBeyondOthers(sent->refusal.message(), steps_.entered_late());
  }
  RETURN_IF_ERROR(sent->refusal);
  return sent->result;
}

absl::StatusOr<std::shared_ptr<ProgramCollectives::Sent>> ProgramCollectives::Send(
    Collective&& part, ParameterStore& store) {
  auto sent = std::make_shared<Sent>();
  {
    MutexLock lock(&mu_);
    if (under_way_ != nullptr) {
      const bool is_of_step = under_way_->part.step == steps_.current();
      if (is_of_step && IsSame(under_way_->part, part)) return under_way_;
      return absl::FailedPreconditionError(
          "another operation of all workers is under way; call it again to go on waiting");
    }
    const Step step = steps_.current();
    if (std::exchange(step_, step) != step) number_ = 0;
    part.step = step;
    part.number = number_;
    is_joined_ = is_joined_ || part.type == CollectiveType::kJoin;
    sent->part = part;
    sent->part.values.Clear();
    under_way_ = sent;
  }
  const bool is_root = part.root == store.sender().worker;
  if (part.type == CollectiveType::kBroadcast && !is_root) part.values.Clear();
  // After an exception nobody can complete the operation.
  absl::Cleanup fail = [this] { steps_.FailHalfSent(); };
  store.Send(std::move(part), [sent](const ExchangeReply& reply) {
    sent->result = reply.values;
    const bool has_no_partner = absl::IsOutOfRange(reply.status);
    if (!has_no_partner && !absl::IsUnimplemented(reply.status)) return reply.status;
    sent->refusal =
        has_no_partner ? reply.status : absl::FailedPreconditionError(reply.status.message());
    return absl::OkStatus();
  });
  std::move(fail).Cancel();
  return sent;
}

void ProgramCollectives::NoteWaiting(Step next, ParameterStore& store) {
  if (!is_bsp_ || num_workers_ < 2) return;
  {
    MutexLock lock(&mu_);
    const absl::Time now = clock_.Now();
    if (std::exchange(waits_for_, next) != next) waits_since_ = now;
    if (is_joined_ || next == Step(0) || now - waits_since_ < kLongWait) return;
    waits_since_ = absl::InfiniteFuture();
  }
  SendEndOfStep(next + -1, store);
}

void ProgramCollectives::NoteStepBefore(Step step, ParameterStore& store) {
  {
    MutexLock lock(&mu_);
    // Each join tells its step.
    const bool is_needless = !is_program_ || is_joined_ || step == Step(0);
    if (is_needless || std::exchange(told_, std::max(told_, step)) >= step) return;
  }
  SendEndOfStep(step + -1, store);
}

void ProgramCollectives::NoteEnd(ParameterStore& store) {
  if (is_bsp_ && num_workers_ > 1) SendEndOfStep(kLargestStep, store);
}

void ProgramCollectives::SendEndOfStep(Step step, ParameterStore& store) {
  Collective end;
  end.step = step;
  end.number = std::numeric_limits<uint64_t>::max();
  end.type = CollectiveType::kEndOfStep;
  store.Send(std::move(end), [](const ExchangeReply&) { return absl::OkStatus(); });
}

}  // namespace capstan
