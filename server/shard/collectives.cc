#include "server/shard/collectives.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "server/shard/collective_part.h"

namespace capstan {
namespace {

// The results that are kept for a worker that does an open step again take at most this memory.
constexpr size_t kMostKeptBytes = size_t{16} << 20;

// So many joins before one step are kept.
constexpr size_t kMostKeptJoins = 1000;

template <typename Value>
Value Combined(CollectiveType type, Value a, Value b) {
  if (type == CollectiveType::kSum || type == CollectiveType::kMean) {
    if constexpr (std::is_integral_v<Value>) {
      return static_cast<Value>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    } else {
      return a + b;
    }
  }
  if constexpr (!std::is_integral_v<Value>) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Value>::quiet_NaN();
  }
  return type == CollectiveType::kMin ? std::min(a, b) : std::max(a, b);
}

// Combines the workers' values, which are equally many, in the given order.
template <typename Value>
void CombineInOrder(CollectiveType type, absl::Span<const std::vector<uint8_t>* const> parts,
                    std::vector<uint8_t>& result) {
  for (size_t offset = 0; offset < result.size(); offset += sizeof(Value)) {
    std::optional<Value> sum;
    for (const std::vector<uint8_t>* const part : parts) {
      Value value;
      std::memcpy(&value, part->data() + offset, sizeof(value));
      sum = sum.has_value() ? Combined(type, *sum, value) : value;
    }
    if (type == CollectiveType::kMean) *sum /= static_cast<Value>(parts.size());
    std::memcpy(result.data() + offset, &*sum, sizeof(*sum));
  }
}

Payload PayloadOf(std::vector<uint8_t> bytes) {
  const auto owner = std::make_shared<std::vector<uint8_t>>(std::move(bytes));
  Payload payload{owner};
  payload.Append(*owner);
  return payload;
}

Payload NumberPayload(int64_t number) {
  std::vector<uint8_t> bytes(sizeof(number));
  std::memcpy(bytes.data(), &number, sizeof(number));
  return PayloadOf(std::move(bytes));
}

}  // namespace

void Collectives::SetWorkers(absl::Span<const ShardWorker> workers, ReleasedReplies* released) {
  std::map<WorkerId, Place> previous = std::exchange(places_, {});
  for (const ShardWorker& worker : workers) {
    Place& place = places_[worker.worker];
    const auto known = previous.find(worker.worker);
    if (known != previous.end() && known->second.worker.incarnation == worker.incarnation) {
      place = std::move(known->second);
      previous.erase(known);
    }
    place.worker = worker;
    Step& open_step = open_steps_[worker.worker];
    if (!worker.is_entering) open_step = std::max(open_step, worker.first_step);
  }
  for (auto& [id, place] : previous) {
    if (place.done == nullptr) continue;
    Answer(place,
           absl::FailedPreconditionError(
               absl::StrCat("worker ", id.value(), " is no live member of the job any more")),
           Payload(), released);
  }
  Advance(released);
}

void Collectives::Exchange(WorkerId worker, Collective&& part,
                           ParameterEndpoint::ReplyCallback done, ReleasedReplies* released) {
  const auto found = places_.find(worker);
  if (found == places_.end()) {
    released->emplace_back(std::move(done),
                           ErrorReply(absl::UnavailableError(absl::StrCat(
                               "this server has not heard of worker ", worker.value(), " yet"))));
    return;
  }
  Place& place = found->second;
  if (AnswerAtOnce(worker, place, part, done, released)) return;
  if (place.is_open) {
    Answer(place,
           absl::FailedPreconditionError(absl::StrCat("worker ", worker.value(),
                                                      " has gone on without the result of ",
                                                      WhichOf(place.latest))),
           Payload(), released);
  }
  Open(worker, place, std::move(part), std::move(done));
  const auto known = done_.find(NameOf(place.latest));
  if (place.latest.type == CollectiveType::kEndOfStep) {
    Answer(place, absl::OkStatus(), Payload(), released);
  } else if (known != done_.end() && IsSame(known->second.operation, place.latest)) {
    // The worker has taken another one's place, and does its step again.
    Answer(place, absl::OkStatus(), known->second.result, released);
  } else if (place.is_joined && place.latest.step == all_joined_) {
    // So it has, if all had joined since.
    const auto after = absl::c_upper_bound(after_joins_, place.latest.number);
    if (after != after_joins_.end()) AnswerJoined(place, *after, released);
  }
  Advance(released);
}

bool Collectives::AnswerAtOnce(WorkerId worker, Place& place, const Collective& part,
                               ParameterEndpoint::ReplyCallback& done, ReleasedReplies* released) {
  const Name name = NameOf(part);
  const Name latest = NameOf(place.latest);
  const auto answer = [&](absl::Status status) {
    released->emplace_back(std::move(done), ErrorReply(std::move(status)));
    return true;
  };
  const bool is_over = !place.is_new && name < latest;
  if (is_over && part.type == CollectiveType::kEndOfStep && CheckPart(worker, part).ok()) {
    NoteOpenStep(worker, part);
    return answer(absl::OkStatus());  // An operation of the next step came before.
  }
  if (is_over) {
    return answer(absl::FailedPreconditionError(
        absl::StrCat("collective operations: ", WhichOf(part), " of worker ", worker.value(),
                     " was answered, and the answer is gone")));
  }
  if (!place.is_new && name == latest) {
    if (place.is_open) {
      std::swap(place.done, done);
      return answer(absl::UnavailableError("a newer request has taken this one's place"));
    }
    ExchangeReply reply = ErrorReply(place.status);
    reply.values = place.result;
    released->emplace_back(std::move(done), std::move(reply));
    return true;
  }
  if (absl::Status status = CheckPart(worker, part); !status.ok()) return answer(std::move(status));
  const bool is_alone =
      part.type == CollectiveType::kJoin || part.type == CollectiveType::kEndOfStep;
  if (!is_alone && part.step < place.worker.first_step) {
    return answer(absl::InvalidArgumentError(
        absl::StrCat("expected operations of worker ", worker.value(), " from its first step ",
                     place.worker.first_step.value(), " on, got ", WhichOf(part))));
  }
  if (place.is_joined && part.type != CollectiveType::kJoin) {
    return answer(absl::InvalidArgumentError(absl::StrCat(
        "expected no ", Describe(part), " of worker ", worker.value(), " before all have joined")));
  }
  return false;
}

void Collectives::Open(WorkerId worker, Place& place, Collective&& part,
                       ParameterEndpoint::ReplyCallback done) {
  place.values.resize(part.values.size_bytes());
  part.values.CopyTo(absl::MakeSpan(place.values));
  part.values.Clear();
  place.is_new = false;
  place.is_joined = part.type == CollectiveType::kJoin;
  has_joined_ = has_joined_ || place.is_joined;
  place.is_open = true;
  place.done = std::move(done);
  NoteOpenStep(worker, part);
  place.latest = std::move(part);
}

void Collectives::NoteOpenStep(WorkerId worker, const Collective& part) {
  Step& open_step = open_steps_[worker];
  if (part.type == CollectiveType::kJoin) {
    open_step = std::max(open_step, part.step);
  } else if (part.type == CollectiveType::kEndOfStep && part.step < kLargestStep) {
    open_step = std::max(open_step, part.step + 1);
  }
}

void Collectives::NoteProgress(WorkerId worker, Step next, ReleasedReplies* released) {
  const auto found = places_.find(worker);
  if (found == places_.end() || found->second.next_step == next) return;
  found->second.next_step = next;
  DropDone();
  if (has_joined_) AdvanceJoins(released);
}

void Collectives::Cancel(const absl::Status& status, ReleasedReplies* released) {
  for (auto& [worker, place] : places_) {
    if (place.is_open) Answer(place, status, Payload(), released);
  }
}

int64_t Collectives::num_parked() const {
  return absl::c_count_if(places_, [](const auto& entry) { return entry.second.is_open; });
}

void Collectives::Answer(Place& place, absl::Status status, Payload result,
                         ReleasedReplies* released) {
  place.is_open = false;
  place.values = {};
  place.status = status;
  place.result = result;
  ExchangeReply reply = ErrorReply(std::move(status));
  reply.values = std::move(result);
  released->emplace_back(std::exchange(place.done, nullptr), std::move(reply));
}

void Collectives::Advance(ReleasedReplies* released) {
  AdvanceJoins(released);
  // The first of the operations that somebody waits for.
  const auto first = absl::c_min_element(places_, [](const auto& a, const auto& b) {
    if (Waits(a.second) != Waits(b.second)) return Waits(a.second);
    return NameOf(a.second.latest) < NameOf(b.second.latest);
  });
  if (first == places_.end() || !Waits(first->second)) return;
  const Name name = NameOf(first->second.latest);
  if (const absl::Status status = CheckAgree(first->first); !status.ok()) {
    for (auto& [worker, place] : places_) {
      if (Waits(place)) Answer(place, status, Payload(), released);
    }
    return;
  }
  const bool is_complete = absl::c_all_of(places_, [step = name.first](const auto& entry) {
    return !TakesPart(entry.second, step) || entry.second.is_open;
  });
  if (!is_complete) return;
  const Payload result = Combine(name);
  Keep(first->second.latest, result);
  for (auto& [worker, place] : places_) {
    if (Waits(place) && NameOf(place.latest) == name) {
      Answer(place, absl::OkStatus(), result, released);
    }
  }
}

absl::Status Collectives::CheckAgree(WorkerId first) const {
  const Collective& awaited = places_.at(first).latest;
  if (awaited.type == CollectiveType::kBroadcast) {
    const auto root = places_.find(awaited.root);
    if (root == places_.end() || !TakesPart(root->second, awaited.step)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "worker ", first.value(), " calls ", Describe(awaited), " as ", WhichOf(awaited),
          ", but that worker takes no part: it has joined, has left, or enters later"));
    }
  }
  for (const auto& [worker, place] : places_) {
    const Collective& latest = place.latest;
    if (!TakesPart(place, awaited.step) || place.is_new || NameOf(latest) < NameOf(awaited)) {
      continue;
    }
    // What it does next is not known yet. Who has entered since then may not have joined.
    if (latest.step == awaited.step && HasJoinedWithAll(place)) continue;
    if (place.is_open && IsSame(latest, awaited)) continue;
    const bool ends = latest.type == CollectiveType::kEndOfStep;
    const std::string other =
        !ends             ? absl::StrCat("calls ", Describe(latest), " as ", WhichOf(latest))
        : HasEnded(place) ? "has done all its steps"
                          : absl::StrCat("has ended step ", latest.step.value());
    const char* const why = awaited.step == incomplete_
                                ? ". The results of this step are too large to be kept (16 MiB), "
                                  "so no worker can take another one's place in it"
                                : "";
    return absl::Status(
        CodeOfMismatch(places_.at(first), place),
        absl::StrCat(
            "expected the same collective operations of all workers in the same order, but worker ",
            first.value(), " calls ", Describe(awaited), " as ", WhichOf(awaited), ", and worker ",
            worker.value(), " ", other, why));
  }
  return absl::OkStatus();
}

Payload Collectives::Combine(const Name& name) const {
  const Collective* operation = nullptr;
  std::vector<const std::vector<uint8_t>*> parts;
  for (const auto& [worker, place] : places_) {
    if (!Waits(place) || NameOf(place.latest) != name) continue;
    operation = &place.latest;
    if (!Combines(operation->type) && worker != operation->root) continue;
    parts.push_back(&place.values);
  }
  if (operation->type == CollectiveType::kBarrier || parts.empty()) return Payload();
  if (operation->type == CollectiveType::kBroadcast) return PayloadOf(*parts[0]);
  std::vector<uint8_t> result(NumElements(operation->shape) * BytesOf(operation->dtype));
  switch (operation->dtype) {
    case CollectiveDtype::kFloat32:
      CombineInOrder<float>(operation->type, parts, result);
      break;
    case CollectiveDtype::kFloat64:
      CombineInOrder<double>(operation->type, parts, result);
      break;
    case CollectiveDtype::kInt64:
      CombineInOrder<int64_t>(operation->type, parts, result);
      break;
  }
  return PayloadOf(std::move(result));
}

size_t Collectives::KeptBytes(const Collective& operation, const Payload& result) {
  constexpr size_t kOverhead = 256;
  return result.size_bytes() + operation.shape.size() * sizeof(uint64_t) + kOverhead;
}

void Collectives::Keep(const Collective& operation, const Payload& result) {
  const size_t bytes = KeptBytes(operation, result);
  if (done_bytes_ + bytes > kMostKeptBytes) {
    incomplete_ = operation.step;
    return;
  }
  done_bytes_ += bytes;
  done_[NameOf(operation)] = {operation, result};
}

void Collectives::DropDone() {
  if (done_.empty()) return;
  Step open = kLargestStep;
  for (const auto& [worker, place] : places_) open = std::min(open, place.next_step);
  // Another slice may lack a worker's push of the step before. Whoever takes its place does that
  // one again.
  while (!done_.empty() && done_.begin()->first.first < open + -1) {
    const Done& done = done_.begin()->second;
    done_bytes_ -= KeptBytes(done.operation, done.result);
    done_.erase(done_.begin());
  }
}

absl::StatusCode Collectives::CodeOfMismatch(const Place& place, const Place& other) {
  const ShardWorker& worker = place.worker;
  const bool came_after_end = worker.is_entering || worker.first_step >= other.next_step;
  return HasEnded(other) && came_after_end ? absl::StatusCode::kOutOfRange
                                           : absl::StatusCode::kInvalidArgument;
}

bool Collectives::HaveAllJoined() const {
  const Step step = places_.begin()->second.latest.step;
  return absl::c_all_of(places_, [step](const auto& entry) {
    const Place& place = entry.second;
    return place.is_joined && place.is_open && place.latest.step == step && place.next_step >= step;
  });
}

void Collectives::AdvanceJoins(ReleasedReplies* released) {
  const auto ended =
      absl::c_find_if(places_, [](const auto& entry) { return HasEnded(entry.second); });
  for (auto& [worker, place] : places_) {
    if (!place.is_joined || !place.is_open) continue;
    const Step step = place.latest.step;
    const bool is_done_elsewhere = absl::c_any_of(places_, [step, id = worker](const auto& entry) {
      return entry.first != id && entry.second.next_step > step;
    });
    if (is_done_elsewhere) {
      Answer(place, absl::OkStatus(), NumberPayload(-1), released);
    } else if (ended != places_.end()) {
      Answer(place,
             absl::Status(CodeOfMismatch(place, ended->second),
                          absl::StrCat("worker ", worker.value(), " has joined, but worker ",
                                       ended->first.value(),
                                       " has done all its steps without a "
                                       "join; call it in all workers")),
             Payload(), released);
    }
  }
  if (places_.empty() || !HaveAllJoined()) return;
  const Step step = places_.begin()->second.latest.step;
  if (std::exchange(all_joined_, step) != step) after_joins_.clear();
  uint64_t after = 0;
  for (const auto& [worker, place] : places_) after = std::max(after, place.latest.number + 1);
  after_joins_.push_back(after);
  if (after_joins_.size() > kMostKeptJoins) after_joins_.pop_front();
  for (auto& [worker, place] : places_) AnswerJoined(place, after, released);
  has_joined_ = false;
}

void Collectives::AnswerJoined(Place& place, uint64_t after, ReleasedReplies* released) {
  place.is_joined = false;
  Answer(place, absl::OkStatus(), NumberPayload(static_cast<int64_t>(after)), released);
}

}  // namespace capstan
