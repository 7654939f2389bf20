#include "common/wire/exchange_header.h"

#include "absl/strings/str_cat.h"
#include "common/base/ids.h"
#include "common/base/printable_text.h"
#include "common/codec/codec.h"

namespace capstan {
namespace {

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

template <typename Header, typename Frame>
absl::Status Decode(absl::Span<const uint8_t> bytes, Frame* frame) {
  Header header;
  if (!header.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::InvalidArgumentError(
        absl::StrCat("malformed header: expected a ", Header::descriptor()->full_name(), ", got ",
                     bytes.size(), " bytes that are no such message"));
  }
  FromHeader(header, frame);
  return absl::OkStatus();
}

}  // namespace

v1::ExchangeRequestHeader ToHeader(uint64_t request_id, const ExchangeRequest& request) {
  v1::ExchangeRequestHeader header;
  header.set_request_id(request_id);
  header.set_job(request.job);
  header.set_worker(request.worker.value());
  header.set_incarnation(request.incarnation.value());
  header.set_epoch(request.epoch.value());
  header.set_table(request.slice.table.value());
  header.set_slice(request.slice.slice.value());
  if (request.push_step.has_value()) {
    header.set_has_push(true);
    header.set_push_step(request.push_step->value());
  }
  if (request.pull_step.has_value()) {
    header.set_has_pull(true);
    header.set_pull_step(request.pull_step->value());
  }
  if (request.base_version.has_value()) {
    header.set_has_base_version(true);
    header.set_base_version(*request.base_version);
  }
  SetCodec(request.codec, &header);
  header.set_own_cut(request.own_cut);
  header.set_pulls_own(request.pulls_own);
  header.set_is_probe(request.is_probe);
  header.set_pulls_float32(request.pulls_float32);
  header.set_copy(request.copy);
  if (request.learning_rate.has_value()) {
    header.set_has_learning_rate(true);
    header.set_learning_rate(*request.learning_rate);
  }
  header.set_is_empty_push(request.is_empty_push);
  header.set_is_initial(request.is_initial);
  const RowBatch& rows = request.rows;
  header.set_push_rows(rows.push.rows);
  header.set_push_key_bytes(rows.push.key_bytes);
  header.set_push_keys_hash(rows.push.keys_hash);
  header.set_pull_rows(rows.pull.rows);
  header.set_pull_key_bytes(rows.pull.key_bytes);
  header.set_pull_keys_hash(rows.pull.keys_hash);
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
  SetCodec(reply.codec, &header);
  header.set_copy(reply.copy);
  return header;
}

void FromHeader(const v1::ExchangeRequestHeader& header, RequestFrame* frame) {
  frame->request_id = header.request_id();
  if (header.has_receipts()) frame->received_bytes = header.received_bytes();
  frame->reads_next = header.reads_next();
  ExchangeRequest& request = frame->request;
  request.job = header.job();
  request.worker = WorkerId(header.worker());
  request.incarnation = Incarnation(header.incarnation());
  request.epoch = Epoch(header.epoch());
  request.slice = {TableId(header.table()), SliceIndex(header.slice())};
  if (header.has_push()) request.push_step = Step(header.push_step());
  if (header.has_pull()) request.pull_step = Step(header.pull_step());
  if (header.has_base_version()) request.base_version = header.base_version();
  request.codec = CodecTypeOf(header.codec());
  request.own_cut = header.own_cut();
  request.pulls_own = header.pulls_own();
  request.is_probe = header.is_probe();
  request.pulls_float32 = header.pulls_float32();
  request.copy = header.copy();
  if (header.has_learning_rate()) request.learning_rate = header.learning_rate();
  request.is_empty_push = header.is_empty_push();
  request.is_initial = header.is_initial();
  request.rows.push = {header.push_rows(), header.push_key_bytes(), header.push_keys_hash()};
  request.rows.pull = {header.pull_rows(), header.pull_key_bytes(), header.pull_keys_hash()};
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
  reply.codec = CodecTypeOf(header.codec());
  reply.copy = header.copy();
}

void EncodeHeader(uint64_t request_id, const ExchangeRequest& request, std::string* bytes) {
  ToHeader(request_id, request).SerializeToString(bytes);
}

void EncodeHeader(uint64_t request_id, const ExchangeReply& reply, std::string* bytes) {
  ToHeader(request_id, reply).SerializeToString(bytes);
}

absl::Status DecodeHeader(absl::Span<const uint8_t> bytes, RequestFrame* frame) {
  return Decode<v1::ExchangeRequestHeader>(bytes, frame);
}

absl::Status DecodeHeader(absl::Span<const uint8_t> bytes, ReplyFrame* frame) {
  return Decode<v1::ExchangeReplyHeader>(bytes, frame);
}

}  // namespace capstan
