#include "common/transport/frame.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "proto/exchange.pb.h"

namespace capstan {
namespace {

using ::google::protobuf::internal::WireFormatLite;
using ::google::protobuf::io::CodedInputStream;
using ::google::protobuf::io::CodedOutputStream;

// The two fields have the same numbers in requests and in replies.
constexpr int kHeaderField = v1::ExchangeRequest::kHeaderFieldNumber;
constexpr int kPayloadField = v1::ExchangeRequest::kPayloadFieldNumber;
static_assert(kHeaderField == int{v1::ExchangeReply::kHeaderFieldNumber});
static_assert(kPayloadField == int{v1::ExchangeReply::kPayloadFieldNumber});
constexpr uint32_t kHeaderTag =
    WireFormatLite::MakeTag(kHeaderField, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
constexpr uint32_t kPayloadTag =
    WireFormatLite::MakeTag(kPayloadField, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);

// A payload's fragments, for protobuf's parser.
class PayloadInputStream : public google::protobuf::io::ZeroCopyInputStream {
 public:
  explicit PayloadInputStream(const Payload& payload) : payload_(payload) {}

  bool Next(const void** data, int* size) override {
    if (fragment_ == payload_.fragments().size()) return false;
    const Payload::Fragment rest = payload_.fragments()[fragment_].subspan(offset_);
    *data = rest.data();
    *size = static_cast<int>(rest.size());
    bytes_ += *size;
    ++fragment_;
    offset_ = 0;
    return true;
  }
  void BackUp(int count) override {
    --fragment_;
    offset_ = payload_.fragments()[fragment_].size() - count;
    bytes_ -= count;
  }
  bool Skip(int count) override {
    const void* data;
    int size;
    while (count > 0) {
      if (!Next(&data, &size)) return false;
      if (size > count) BackUp(size - count);
      count -= std::min(size, count);
    }
    return true;
  }
  int64_t ByteCount() const override { return bytes_; }

 private:
  const Payload& payload_;
  size_t fragment_ = 0;
  size_t offset_ = 0;
  int64_t bytes_ = 0;
};

void AppendVarint(uint32_t value, std::string* out) {
  uint8_t bytes[5];
  const uint8_t* end = CodedOutputStream::WriteVarint32ToArray(value, bytes);
  out->append(reinterpret_cast<const char*>(bytes), end - bytes);
}

template <typename Header>
std::string EncodePrefix(const Header& header, size_t payload_bytes) {
  std::string prefix;
  AppendVarint(kHeaderTag, &prefix);
  AppendVarint(static_cast<uint32_t>(header.ByteSizeLong()), &prefix);
  header.AppendToString(&prefix);
  if (payload_bytes > 0) {
    AppendVarint(kPayloadTag, &prefix);
    AppendVarint(static_cast<uint32_t>(payload_bytes), &prefix);
  }
  return prefix;
}

// Reads one field; false when the bytes are not a message.
template <typename Header>
bool ReadField(CodedInputStream& input, uint32_t tag, const Payload& frame, Header* header,
               Payload* payload) {
  if (tag != kHeaderTag && tag != kPayloadTag) return WireFormatLite::SkipField(&input, tag);
  uint32_t size = 0;
  if (!input.ReadVarint32(&size)) return false;
  const uint64_t position = input.CurrentPosition();
  if (size > frame.size_bytes() - position) return false;
  if (tag == kHeaderTag) {
    const CodedInputStream::Limit limit = input.PushLimit(static_cast<int>(size));
    if (!header->MergeFromCodedStream(&input) || !input.ConsumedEntireMessage()) return false;
    input.PopLimit(limit);
    return true;
  }
  *payload = frame.Subrange(position, size);
  return input.Skip(static_cast<int>(size));
}

template <typename Header>
absl::Status DecodeFrame(const Payload& frame, Header* header, Payload* payload) {
  PayloadInputStream stream(frame);
  CodedInputStream input(&stream);
  while (const uint32_t tag = input.ReadTag()) {
    if (!ReadField(input, tag, frame, header, payload)) {
      return absl::InvalidArgumentError(
          absl::StrCat("malformed frame: expected a ", header->GetTypeName(),
                       " and a payload as in proto/exchange.proto, got ", frame.size_bytes(),
                       " bytes that are no such message"));
    }
  }
  if (static_cast<size_t>(input.CurrentPosition()) != frame.size_bytes()) {
    return absl::InvalidArgumentError(
        absl::StrCat("malformed frame: ", frame.size_bytes() - input.CurrentPosition(),
                     " bytes after the last field"));
  }
  return absl::OkStatus();
}

v1::ExchangeRequestHeader HeaderOf(uint64_t request_id, const ExchangeRequest& request) {
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
  header.set_may_skip_pull(request.may_skip_pull);
  if (request.refresh_after.has_value()) {
    header.set_is_refresh(true);
    header.set_refresh_after(request.refresh_after->value());
  }
  return header;
}

v1::ExchangeReplyHeader HeaderOf(uint64_t request_id, const ExchangeReply& reply) {
  v1::ExchangeReplyHeader header;
  header.set_request_id(request_id);
  header.set_code(static_cast<int>(reply.status.code()));
  header.set_message(std::string(reply.status.message()));
  header.set_version(reply.version);
  header.set_min_step(reply.min_step.value());
  header.set_epoch(reply.epoch.value());
  header.set_pull_step(reply.pull_step.value());
  return header;
}

void FromHeader(const v1::ExchangeRequestHeader& header, RequestFrame* decoded) {
  decoded->request_id = header.request_id();
  if (header.has_receipts()) decoded->received_bytes = header.received_bytes();
  ExchangeRequest& request = decoded->request;
  request.job = header.job();
  request.worker = WorkerId(header.worker());
  request.incarnation = Incarnation(header.incarnation());
  request.epoch = Epoch(header.epoch());
  request.slice = {TableId(header.table()), SliceIndex(header.slice())};
  if (header.has_push()) request.push_step = Step(header.push_step());
  if (header.has_pull()) request.pull_step = Step(header.pull_step());
  request.may_skip_pull = header.may_skip_pull();
  if (header.is_refresh()) request.refresh_after = Step(header.refresh_after());
}

void FromHeader(const v1::ExchangeReplyHeader& header, ReplyFrame* decoded) {
  decoded->request_id = header.request_id();
  decoded->received_bytes = header.received_bytes();
  ExchangeReply& reply = decoded->reply;
  reply.status = absl::Status(static_cast<absl::StatusCode>(header.code()), header.message());
  reply.version = header.version();
  reply.min_step = Step(header.min_step());
  reply.epoch = Epoch(header.epoch());
  reply.pull_step = Step(header.pull_step());
}

template <typename Header, typename Frame>
absl::StatusOr<Frame> DecodeHeader(absl::Span<const uint8_t> bytes) {
  Header header;
  if (!header.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::InvalidArgumentError(absl::StrCat("malformed header: expected a ",
                                                   header.GetTypeName(), ", got ", bytes.size(),
                                                   " bytes that are no such message"));
  }
  Frame decoded;
  FromHeader(header, &decoded);
  return decoded;
}

}  // namespace

std::string EncodeRequestPrefix(uint64_t request_id, const ExchangeRequest& request,
                                std::optional<uint64_t> received_bytes) {
  v1::ExchangeRequestHeader header = HeaderOf(request_id, request);
  header.set_has_receipts(received_bytes.has_value());
  header.set_received_bytes(received_bytes.value_or(0));
  return EncodePrefix(header, request.gradient.size_bytes());
}

std::string EncodeReplyPrefix(uint64_t request_id, const ExchangeReply& reply,
                              uint64_t received_bytes) {
  v1::ExchangeReplyHeader header = HeaderOf(request_id, reply);
  header.set_received_bytes(received_bytes);
  return EncodePrefix(header, reply.values.size_bytes());
}

std::string EncodeRequestReceipt(uint64_t received_bytes) {
  v1::ExchangeRequestHeader header;
  header.set_has_receipts(true);
  header.set_received_bytes(received_bytes);
  return EncodePrefix(header, /*payload_bytes=*/0);
}

std::string EncodeReplyReceipt(uint64_t received_bytes) {
  v1::ExchangeReplyHeader header;
  header.set_received_bytes(received_bytes);
  return EncodePrefix(header, /*payload_bytes=*/0);
}

absl::StatusOr<RequestFrame> DecodeRequest(const Payload& frame) {
  v1::ExchangeRequestHeader header;
  RequestFrame decoded;
  RETURN_IF_ERROR(DecodeFrame(frame, &header, &decoded.request.gradient));
  FromHeader(header, &decoded);
  return decoded;
}

absl::StatusOr<ReplyFrame> DecodeReply(const Payload& frame) {
  v1::ExchangeReplyHeader header;
  ReplyFrame decoded;
  RETURN_IF_ERROR(DecodeFrame(frame, &header, &decoded.reply.values));
  FromHeader(header, &decoded);
  return decoded;
}

std::string EncodeRequestHeader(uint64_t request_id, const ExchangeRequest& request) {
  return HeaderOf(request_id, request).SerializeAsString();
}

std::string EncodeReplyHeader(uint64_t request_id, const ExchangeReply& reply) {
  return HeaderOf(request_id, reply).SerializeAsString();
}

absl::StatusOr<RequestFrame> DecodeRequestHeader(absl::Span<const uint8_t> header) {
  return DecodeHeader<v1::ExchangeRequestHeader, RequestFrame>(header);
}

absl::StatusOr<ReplyFrame> DecodeReplyHeader(absl::Span<const uint8_t> header) {
  return DecodeHeader<v1::ExchangeReplyHeader, ReplyFrame>(header);
}

}  // namespace capstan
