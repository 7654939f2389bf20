#include "common/history/recording_endpoint.h"

#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/codec/changed_values.h"
#include "common/exchange/payload.h"

namespace capstan {
namespace {

v1::HistoryRecord Began(uint64_t id, const ExchangeRequest& request, absl::Time now) {
  v1::HistoryRecord record;
  v1::ExchangeBegan& began = *record.mutable_began();
  began.set_id(id);
  began.set_worker(request.sender.worker.value());
  began.set_incarnation(request.sender.incarnation.value());
  began.set_table(request.slice.table.value());
  began.set_slice(request.slice.slice.value());
  if (const StepPush* const push = PushOf(request); push != nullptr) {
    began.set_has_push(true);
    began.set_push_step(push->step.value());
    began.set_has_base_version(push->base_version.has_value());
    began.set_base_version(push->base_version.value_or(0));
    began.set_has_learning_rate(push->rates.learning_rate.has_value());
    began.set_learning_rate(push->rates.learning_rate.value_or(0));
    began.set_has_momentum(push->rates.momentum.has_value());
    began.set_momentum(push->rates.momentum.value_or(0));
    began.set_is_empty_push(!push->gradient.has_value());
  }
  if (const StepPull* const pull = PullOf(request); pull != nullptr) {
    began.set_has_pull(true);
    began.set_pull_step(pull->step.value());
  }
  began.set_is_initial(std::holds_alternative<InitialValues>(request.purpose));
  began.set_time_ns(absl::ToUnixNanos(now));
  return record;
}

v1::HistoryRecord Ended(uint64_t id, Incarnation incarnation, const ExchangeReply& reply,
                        absl::Time now) {
  v1::HistoryRecord record;
  v1::ExchangeEnded& ended = *record.mutable_ended();
  ended.set_id(id);
  ended.set_incarnation(incarnation.value());
  ended.set_code(reply.status.raw_code());
  ended.set_version(reply.version);
  ended.set_min_step(reply.min_step.value());
  ended.set_learning_rate_divisor(reply.learning_rate_divisor);
  ended.set_time_ns(absl::ToUnixNanos(now));
  return record;
}

// Brings `values` up to the reply, which is in one piece. `codec` is for lossy replies.
void Apply(const Codec* codec, const ExchangeReply& reply, std::vector<float>& values) {
  const Payload::Fragment bytes = reply.values.piece();
  if (reply.codec == CodecType::kFloat32) {
    values.resize(bytes.size() / sizeof(float));
    reply.values.CopyTo(absl::MakeSpan(values));
  } else if (reply.codec == CodecType::kChanged) {
    ApplyChanged(bytes, absl::MakeSpan(values));
  } else {
    codec->DecodeAdd(bytes, values.size(), /*begin=*/0, absl::MakeSpan(values));
  }
}

}  // namespace

RecordingEndpoint::RecordingEndpoint(Recording* recording, std::unique_ptr<ParameterEndpoint> inner)
    : recording_(*recording), inner_(std::move(inner)) {}

void RecordingEndpoint::RecordValues(const Recording& recording, SliceKey slice,
                                     const ExchangeReply& reply, Copies& copies,
                                     v1::ExchangeEnded* ended) {
  if (reply.copy == 0) {
    const int size = static_cast<int>(reply.values.size_bytes() / sizeof(float));
    ended->mutable_values()->Resize(size, 0);
    reply.values.CopyTo(absl::MakeSpan(ended->mutable_values()->mutable_data(), size));
    return;
  }
  ExchangeReply whole = reply;
  whole.values = reply.values.InOnePiece();
  MutexLock lock(&copies.mu);
  Copy& copy = copies.of_slice[slice];
  const bool is_lossy = reply.codec != CodecType::kFloat32 && reply.codec != CodecType::kChanged;
  if (is_lossy && recording.pull_codecs.empty()) {
    copy.number = reply.copy;
    copy.is_exact = false;
    ended->set_has_inexact_values(true);
    return;
  }
  Apply(is_lossy ? recording.pull_codecs.at(slice.table.value()).get() : nullptr, whole,
        copy.values);
  // If all changed elements have come, nothing is missing. If the number stays, the copy is what it
  // was. A whole copy can lack something: it may be the copy of other workers.
  const bool is_same = std::exchange(copy.number, reply.copy) == reply.copy;
  const bool has_all_changes = reply.codec == CodecType::kChanged;
  if (!is_same || !has_all_changes) copy.is_exact = has_all_changes;
  ended->set_has_inexact_values(!copy.is_exact);
  if (copy.is_exact) ended->mutable_values()->Add(copy.values.begin(), copy.values.end());
}

void RecordingEndpoint::AppendChanges(Recording& recording, SliceKey slice,
                                      v1::HistoryRecord& record) {
  v1::ExchangeEnded& ended = *record.mutable_ended();
  MutexLock lock(&recording.mu);
  std::vector<float>& before = recording.recorded[slice];
  before.resize(static_cast<size_t>(ended.values_size()));
  for (int i = 0; i < ended.values_size(); ++i) {
    float& value = before[static_cast<size_t>(i)];
    if (value == ended.values(i)) continue;
    value = ended.values(i);
    ended.add_changed_elements(static_cast<uint32_t>(i));
    ended.add_changed_values(value);
  }
  ended.set_has_changes(true);
  ended.clear_values();
  recording.log->Append(record);
}

void RecordingEndpoint::Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                                 ReplyCallback done) {
  // The contract is about parameters.
  if (LeavesParameters(request)) {
    return inner_->Exchange(std::move(request), std::move(delivered), std::move(done));
  }
  const uint64_t id = ++recording_.last_id;
  const Incarnation incarnation = request.sender.incarnation;
  const SliceKey slice = request.slice;
  const bool is_pull = PullOf(request) != nullptr;
  recording_.log->Append(Began(id, request, recording_.clock->Now()));
  // The endpoint may end before its replies come.
  inner_->Exchange(
      std::move(request), std::move(delivered),
      [&recording = recording_, copies = copies_, id, incarnation, slice, is_pull,
       done = std::move(done)](ExchangeReply reply) mutable {
        v1::HistoryRecord record = Ended(id, incarnation, reply, recording.clock->Now());
        if (recording.has_values) {
          RecordValues(recording, slice, reply, *copies, record.mutable_ended());
          // A pull of no rows of a sparse table. That of a dense slice has values.
          if (is_pull && reply.status.ok() && reply.copy == 0 && reply.values.empty()) {
            record.mutable_ended()->set_has_inexact_values(true);
          }
        }
        if (recording.has_changes && record.ended().values_size() > 0) {
          AppendChanges(recording, slice, record);
        } else {
          recording.log->Append(record);
        }
        done(std::move(reply));
      });
}

}  // namespace capstan
