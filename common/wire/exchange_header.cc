#include "common/wire/exchange_header.h"

#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/ids.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/codec/codec.h"
#include "common/exchange/collective.h"
#include "common/exchange/rates.h"

namespace capstan {
namespace {

// As shard_count of proto/job.proto.
constexpr uint32_t kMostShards = 65536;

constexpr bool IsNumberedAs(CodecType type, v1::Codec codec) {
  return static_cast<int>(type) == static_cast<int>(codec);
}
static_assert(IsNumberedAs(CodecType::kFloat32, v1::FLOAT32));
static_assert(IsNumberedAs(CodecType::kBfloat16, v1::BFLOAT16));
static_assert(IsNumberedAs(CodecType::kInt8, v1::INT8));
static_assert(IsNumberedAs(CodecType::kTopkFloat32, v1::TOPK_FLOAT32));
static_assert(IsNumberedAs(CodecType::kTopkBfloat16, v1::TOPK_BFLOAT16));
static_assert(IsNumberedAs(CodecType::kTopkInt8, v1::TOPK_INT8));
static_assert(IsNumberedAs(CodecType::kChanged, v1::CHANGED));

// float32 is left out: it takes no bytes.
template <typename Header>
void SetCodec(CodecType type, Header* header) {
  if (type != CodecType::kFloat32) header->set_codec(static_cast<v1::Codec>(type));
}

// A number that stands for no codec is kept. The reader of the payload refuses it.
CodecType CodecTypeOf(v1::Codec codec) {
  return codec == v1::CODEC_UNSPECIFIED ? CodecType::kFloat32 : static_cast<CodecType>(codec);
}

template <typename Header>
absl::Status Parse(absl::Span<const uint8_t> bytes, Header* header) {
  if (bytes.size() <= kMaxHeaderBytes &&
      header->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "malformed header: expected a ", Header::descriptor()->full_name(), " of at most ",
      kMaxHeaderBytes, " bytes, got ", bytes.size(), " bytes that are no such message"));
}

// The halves of a dense or a sparse step.
template <typename StepOf>
void FillHalves(const StepOf& step, v1::Step* message) {
  if (step.push.has_value()) {
    const StepPush& push = *step.push;
    message->set_push_step(push.step.value());
    message->set_is_empty_push(!push.gradient.has_value());
    if (push.gradient.has_value()) SetCodec(push.gradient->codec, message);
    if (push.base_version.has_value()) message->set_base_version(*push.base_version);
    const Rates& rates = push.rates;
    if (rates.learning_rate.has_value()) message->set_learning_rate(*rates.learning_rate);
    if (rates.momentum.has_value()) message->set_momentum(*rates.momentum);
  }
  if (step.pull.has_value()) {
    message->set_pull_step(step.pull->step.value());
    message->set_pulls_float32(step.pull->is_float32);
  }
}
template <typename StepOf>
void ReadHalves(const v1::Step& message, StepOf* step) {
  if (message.has_push_step()) {
    StepPush& push = step->push.emplace();
    push.step = Step(message.push_step());
    if (!message.is_empty_push()) push.gradient.emplace().codec = CodecTypeOf(message.codec());
    if (message.has_base_version()) push.base_version = message.base_version();
    if (message.has_learning_rate()) push.rates.learning_rate = message.learning_rate();
    if (message.has_momentum()) push.rates.momentum = message.momentum();
  }
  if (message.has_pull_step()) {
    step->pull = {Step(message.pull_step()), message.pulls_float32()};
  }
}

void FillPurpose(const ExchangeRequest& request, v1::ExchangeRequestHeader* header) {
  const auto& purpose = request.purpose;
  if (const auto* dense = std::get_if<DenseStep>(&purpose)) {
    FillHalves(*dense, header->mutable_dense_step());
    header->mutable_dense_step()->set_copy(dense->copy);
  } else if (const auto* rows = std::get_if<RowStep>(&purpose)) {
    v1::RowStep& message = *header->mutable_row_step();
    FillHalves(*rows, message.mutable_step());
    message.set_pushed_rows(rows->pushed_keys.rows);
    message.set_pushed_key_bytes(static_cast<uint32_t>(rows->pushed_keys.bytes.size_bytes()));
    message.set_pushed_keys_hash(rows->pushed_keys.hash);
    message.set_pulled_rows(rows->pulled_keys.rows);
    message.set_pulled_key_bytes(static_cast<uint32_t>(rows->pulled_keys.bytes.size_bytes()));
    message.set_pulled_keys_hash(rows->pulled_keys.hash);
  } else if (const auto* state = std::get_if<WorkerState>(&purpose)) {
    header->mutable_worker_state()->set_cut(state->cut);
    header->mutable_worker_state()->set_is_program(state->is_program);
  } else if (const auto* restored = std::get_if<WorkerStatePull>(&purpose)) {
    header->mutable_worker_state_pull()->set_is_program(restored->is_program);
  } else if (const auto* table = std::get_if<TableState>(&purpose)) {
    header->mutable_table_state()->set_cut(table->cut);
  } else if (std::holds_alternative<InitialValues>(purpose)) {
    header->mutable_initial_values();
  } else if (const auto* optimizer = std::get_if<OptimizerState>(&purpose)) {
    header->mutable_optimizer_state()->set_array(optimizer->array);
    header->mutable_optimizer_state()->set_steps(optimizer->steps);
  } else if (const auto* pull = std::get_if<OptimizerStatePull>(&purpose)) {
    header->mutable_optimizer_state_pull()->set_array(pull->array);
  } else if (const auto* collective = std::get_if<Collective>(&purpose)) {
    v1::Collective& message = *header->mutable_collective();
    message.set_step(collective->step.value());
    message.set_number(collective->number);
    message.set_type(static_cast<v1::Collective::Type>(collective->type));
    message.set_dtype(static_cast<v1::Collective::Dtype>(collective->dtype));
    message.set_root(collective->root.value());
    message.mutable_shape()->Add(collective->shape.begin(), collective->shape.end());
  } else if (const auto* record = std::get_if<ReplicaRecord>(&purpose)) {
    v1::ReplicaRecord& message = *header->mutable_replica_record();
    message.set_shard(record->shard.value());
    message.set_copy(record->copy);
    message.set_sequence(record->sequence);
    message.set_backup(record->backup.value());
    message.set_change(record->change);
  } else {
    header->mutable_probe();
  }
}

// INVALID_ARGUMENT: a shape has too many dimensions.
absl::StatusOr<Collective> ReadCollective(const v1::Collective& message) {
  RETURN_IF_ERROR(CheckDimensions(static_cast<size_t>(message.shape_size())));
  // A number that stands for nothing is kept. The server refuses it.
  return Collective{Step(message.step()),
                    message.number(),
                    static_cast<CollectiveType>(message.type()),
                    static_cast<CollectiveDtype>(message.dtype()),
                    {message.shape().begin(), message.shape().end()},
                    WorkerId(message.root())};
}

// INVALID_ARGUMENT: a number is out of its range, or the change is too long.
absl::StatusOr<ReplicaRecord> ReadRecord(const v1::ReplicaRecord& message) {
  if (message.shard() >= kMostShards) {
    return absl::InvalidArgumentError(absl::StrCat("expected a record of a shard below ",
                                                   kMostShards, ", got shard ", message.shard()));
  }
  if (message.sequence() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected records of shard ", message.shard(), " from 1 on, got record 0"));
  }
  if (message.change().size() > kMaxChangeBytes) {
    return absl::InvalidArgumentError(absl::StrCat("expected a record with a change of at most ",
                                                   kMaxChangeBytes, " bytes, got ",
                                                   message.change().size()));
  }
  return ReplicaRecord{ShardId(message.shard()),      message.copy(),   message.sequence(),
                       Incarnation(message.backup()), message.change(), Payload()};
}

// INVALID_ARGUMENT: this program knows no such purpose, or a number in it cannot be.
absl::Status ReadPurpose(const v1::ExchangeRequestHeader& header, ExchangeRequest* request) {
  auto& purpose = request->purpose;
  switch (header.purpose_case()) {
    case v1::ExchangeRequestHeader::kDenseStep: {
      auto& step = purpose.emplace<DenseStep>();
      ReadHalves(header.dense_step(), &step);
      step.copy = header.dense_step().copy();
      return absl::OkStatus();
    }
    case v1::ExchangeRequestHeader::kRowStep: {
      auto& step = purpose.emplace<RowStep>();
      ReadHalves(header.row_step().step(), &step);
      const v1::RowStep& message = header.row_step();
      step.pushed_keys = {message.pushed_rows(), message.pushed_keys_hash()};
      step.pulled_keys = {message.pulled_rows(), message.pulled_keys_hash()};
      return absl::OkStatus();
    }
    case v1::ExchangeRequestHeader::kWorkerState:
      purpose =
          WorkerState{header.worker_state().cut(), Payload(), header.worker_state().is_program()};
      return absl::OkStatus();
    case v1::ExchangeRequestHeader::kWorkerStatePull:
      purpose = WorkerStatePull{header.worker_state_pull().is_program()};
      return absl::OkStatus();
    case v1::ExchangeRequestHeader::kTableState:
      purpose = TableState{header.table_state().cut(), Payload()};
      return absl::OkStatus();
    case v1::ExchangeRequestHeader::kInitialValues:
      purpose.emplace<InitialValues>();
      return absl::OkStatus();
    case v1::ExchangeRequestHeader::kOptimizerState:
      purpose = OptimizerState{header.optimizer_state().array(), header.optimizer_state().steps(),
                               Payload()};
      return absl::OkStatus();
    case v1::ExchangeRequestHeader::kOptimizerStatePull:
      purpose = OptimizerStatePull{header.optimizer_state_pull().array()};
      return absl::OkStatus();
    case v1::ExchangeRequestHeader::kCollective: {
      ASSIGN_OR_RETURN(purpose, ReadCollective(header.collective()));
      return absl::OkStatus();
    }
    case v1::ExchangeRequestHeader::kReplicaRecord: {
      ASSIGN_OR_RETURN(purpose, ReadRecord(header.replica_record()));
      return absl::OkStatus();
    }
    case v1::ExchangeRequestHeader::kProbe:
      purpose.emplace<Probe>();
      return absl::OkStatus();
    case v1::ExchangeRequestHeader::PURPOSE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "expected a request for a step, for a worker's or an optimizer's state, for initial values, "
      "for a collective operation, for a probe or of a record, got none of them");
}

// INVALID_ARGUMENT: the payload has bytes that nobody asks for, or lacks some.
absl::Status CheckPayload(const ExchangeRequest& request, const RequestFrame& frame) {
  if (const auto* rows = std::get_if<RowStep>(&request.purpose)) {
    if ((frame.pushed_key_bytes > 0 && rows->pushed_keys.rows == 0) ||
        (frame.pulled_key_bytes > 0 && rows->pulled_keys.rows == 0)) {
      return absl::InvalidArgumentError("expected no keys without rows");
    }
  }
  const size_t keys = size_t{frame.pushed_key_bytes} + frame.pulled_key_bytes;
  if (keys > frame.payload_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected ", keys, " bytes of keys, got a payload of ", frame.payload_bytes));
  }
  const bool has_more = IsStep(request) ? GradientOf(request) != nullptr : !PullsState(request);
  if (has_more || frame.payload_bytes == keys) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("got a payload of ", frame.payload_bytes - keys,
                   " bytes without a push, in an empty one, or in a pull of a state"));
}

}  // namespace

Payload TakePayload(ExchangeRequest&& request) {
  Payload whole;
  ForEachPayload(request, [&whole](Payload& part) {
    if (whole.empty()) {
      whole = std::move(part);
    } else {
      whole.Append(part);
    }
  });
  return whole;
}

void SetPayload(Payload payload, RequestFrame* frame) {
  auto& purpose = frame->request->purpose;
  if (auto* state = std::get_if<WorkerState>(&purpose)) {
    state->arrays = std::move(payload);
  } else if (auto* table = std::get_if<TableState>(&purpose)) {
    table->arrays = std::move(payload);
  } else if (auto* initial = std::get_if<InitialValues>(&purpose)) {
    initial->values = std::move(payload);
  } else if (auto* optimizer = std::get_if<OptimizerState>(&purpose)) {
    optimizer->values = std::move(payload);
  } else if (auto* collective = std::get_if<Collective>(&purpose)) {
    collective->values = std::move(payload);
  } else if (auto* probe = std::get_if<Probe>(&purpose)) {
    probe->bytes = std::move(payload);
  } else if (auto* record = std::get_if<ReplicaRecord>(&purpose)) {
    record->bytes = std::move(payload);
  } else if (auto* dense = std::get_if<DenseStep>(&purpose)) {
    if (!payload.empty()) dense->push->gradient->bytes = std::move(payload);
  } else if (auto* rows = std::get_if<RowStep>(&purpose)) {
    const size_t pulled = payload.size_bytes() - frame->pulled_key_bytes;
    const size_t pushed = pulled - frame->pushed_key_bytes;
    if (pushed > 0) rows->push->gradient->bytes = payload.Subrange(0, pushed);
    rows->pushed_keys.bytes = payload.Subrange(pushed, frame->pushed_key_bytes);
    rows->pulled_keys.bytes = payload.Subrange(pulled, frame->pulled_key_bytes);
  }
}

v1::ExchangeRequestHeader ToHeader(uint64_t request_id, const ExchangeRequest& request) {
  v1::ExchangeRequestHeader header;
  header.set_request_id(request_id);
  header.set_job(request.sender.job);
  header.set_worker(request.sender.worker.value());
  header.set_incarnation(request.sender.incarnation.value());
  header.set_epoch(request.epoch.value());
  header.set_table(request.slice.table.value());
  header.set_slice(request.slice.slice.value());
  FillPurpose(request, &header);
  return header;
}

v1::ExchangeReplyHeader ToHeader(uint64_t request_id, const ExchangeReply& reply) {
  v1::ExchangeReplyHeader header;
  header.set_request_id(request_id);
  if (!reply.status.ok()) {
    header.set_code(static_cast<int>(reply.status.code()));
    // Protobuf accepts UTF-8 only.
    header.set_message(CutText(PrintableText(reply.status.message())));
  }
  header.set_version(reply.version);
  header.set_min_step(reply.min_step.value());
  header.set_epoch(reply.epoch.value());
  header.set_learning_rate_divisor(reply.learning_rate_divisor);
  header.set_cut(reply.cut);
  header.set_optimizer_steps(reply.optimizer_steps);
  SetCodec(reply.codec, &header);
  header.set_copy(reply.copy);
  return header;
}

void FromHeader(const v1::ExchangeRequestHeader& header, size_t payload_bytes,
                RequestFrame* frame) {
  frame->request_id = header.request_id();
  frame->payload_bytes = payload_bytes;
  if (header.has_receipts()) frame->received_bytes = header.received_bytes();
  frame->reads_next = header.reads_next();
  ExchangeRequest& request = frame->request.emplace();
  request.sender = {header.job(), WorkerId(header.worker()), Incarnation(header.incarnation())};
  request.epoch = Epoch(header.epoch());
  request.slice = {TableId(header.table()), SliceIndex(header.slice())};
  absl::Status status = ReadPurpose(header, &request);
  const bool has_purpose = header.purpose_case() != v1::ExchangeRequestHeader::PURPOSE_NOT_SET;
  frame->is_receipt = !has_purpose && header.has_receipts() && header.request_id() == 0;
  frame->pushed_key_bytes = header.row_step().pushed_key_bytes();
  frame->pulled_key_bytes = header.row_step().pulled_key_bytes();
  if (status.ok()) status = CheckPayload(request, *frame);
  if (!status.ok()) frame->request = std::move(status);
}

void FromHeader(const v1::ExchangeReplyHeader& header, ReplyFrame* frame) {
  frame->request_id = header.request_id();
  frame->received_bytes = header.received_bytes();
  ExchangeReply& reply = frame->reply;
  if (header.code() != 0) {
    reply.status = absl::Status(static_cast<absl::StatusCode>(header.code()),
                                CutText(PrintableText(header.message())));
  }
  reply.version = header.version();
  reply.min_step = Step(header.min_step());
  reply.epoch = Epoch(header.epoch());
  reply.learning_rate_divisor = header.learning_rate_divisor();
  reply.cut = header.cut();
  reply.optimizer_steps = header.optimizer_steps();
  reply.codec = CodecTypeOf(header.codec());
  reply.copy = header.copy();
}

void EncodeHeader(uint64_t request_id, const ExchangeRequest& request, std::string* bytes) {
  ToHeader(request_id, request).SerializeToString(bytes);
}

void EncodeHeader(uint64_t request_id, const ExchangeReply& reply, std::string* bytes) {
  ToHeader(request_id, reply).SerializeToString(bytes);
}

absl::Status DecodeHeader(absl::Span<const uint8_t> bytes, size_t payload_bytes,
                          RequestFrame* frame) {
  v1::ExchangeRequestHeader header;
  RETURN_IF_ERROR(Parse(bytes, &header));
  FromHeader(header, payload_bytes, frame);
  return absl::OkStatus();
}

absl::Status DecodeHeader(absl::Span<const uint8_t> bytes, ReplyFrame* frame) {
  v1::ExchangeReplyHeader header;
  RETURN_IF_ERROR(Parse(bytes, &header));
  FromHeader(header, frame);
  return absl::OkStatus();
}

}  // namespace capstan
