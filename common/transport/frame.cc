#include "common/transport/frame.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/transport/exchange_header.h"
#include "proto/exchange.pb.h"

namespace capstan {
namespace {

using ::google::protobuf::internal::WireFormatLite;
using ::google::protobuf::io::CodedInputStream;
using ::google::protobuf::io::CodedOutputStream;

// The fields have the same numbers in requests and in replies.
constexpr int kHeaderField = v1::ExchangeRequest::kHeaderFieldNumber;
constexpr int kPayloadField = v1::ExchangeRequest::kPayloadFieldNumber;
constexpr int kNextField = v1::ExchangeRequest::kNextFieldNumber;
static_assert(kHeaderField == int{v1::ExchangeReply::kHeaderFieldNumber});
static_assert(kPayloadField == int{v1::ExchangeReply::kPayloadFieldNumber});
static_assert(kNextField == int{v1::ExchangeReply::kNextFieldNumber});

constexpr uint32_t TagOf(int field) {
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}
constexpr uint32_t kHeaderTag = TagOf(kHeaderField);
constexpr uint32_t kPayloadTag = TagOf(kPayloadField);
constexpr uint32_t kNextTag = TagOf(kNextField);

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
  std::string bytes;
  AppendHeader(header, &bytes);
  std::string prefix;
  AppendVarint(kHeaderTag, &prefix);
  AppendVarint(static_cast<uint32_t>(bytes.size()), &prefix);
  prefix += bytes;
  if (payload_bytes > 0) {
    AppendVarint(kPayloadTag, &prefix);
    AppendVarint(static_cast<uint32_t>(payload_bytes), &prefix);
  }
  return prefix;
}

// Reads one field; false when the bytes are not a message.
template <typename Header>
bool ReadField(CodedInputStream& input, uint32_t tag, const Payload& frame, Header* header,
               Payload* payload, NextFrames* next) {
  if (tag != kHeaderTag && tag != kPayloadTag && tag != kNextTag) {
    return WireFormatLite::SkipField(&input, tag);
  }
  uint32_t size = 0;
  if (!input.ReadVarint32(&size)) return false;
  const uint64_t position = input.CurrentPosition();
  if (size > frame.size_bytes() - position) return false;
  if (tag == kHeaderTag) {
    const CodedInputStream::Limit limit = input.PushLimit(static_cast<int>(size));
    if (!MergeHeader(input, header)) return false;
    input.PopLimit(limit);
    return true;
  }
  if (tag == kNextTag) {
    if (next == nullptr || next->size() == kMostNext) return false;
    next->push_back(frame.Subrange(position, size));
  } else {
    *payload = frame.Subrange(position, size);
  }
  return input.Skip(static_cast<int>(size));
}

template <typename Header>
absl::Status DecodeFrame(const Payload& frame, Header* header, Payload* payload, NextFrames* next) {
  PayloadInputStream stream(frame);
  CodedInputStream input(&stream);
  NextFrames followers;
  while (const uint32_t tag = input.ReadTag()) {
    if (!ReadField(input, tag, frame, header, payload, next == nullptr ? nullptr : &followers)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "malformed frame: expected a ", Header::kName,
          " and a payload as in proto/exchange.proto, ",
          next == nullptr ? "and no frame within one that follows another"
                          : absl::StrCat("and at most ", kMostNext, " frames that follow"),
          ", got ", frame.size_bytes(), " bytes that are no such message"));
    }
  }
  // CurrentPosition() is past an invalid tag if the tag spans fragments.
  if (!input.ConsumedEntireMessage()) {
    return absl::InvalidArgumentError(absl::StrCat("malformed frame: expected a field before byte ",
                                                   input.CurrentPosition() + 1, " of ",
                                                   frame.size_bytes()));
  }
  if (next != nullptr) *next = std::move(followers);
  return absl::OkStatus();
}

}  // namespace

std::string EncodeRequestPrefix(uint64_t request_id, const ExchangeRequest& request,
                                std::optional<uint64_t> received_bytes) {
  RequestHeader header = HeaderOf(request_id, request);
  header.has_receipts = received_bytes.has_value();
  header.received_bytes = received_bytes.value_or(0);
  header.reads_next = received_bytes.has_value();
  return EncodePrefix(header, request.gradient.size_bytes());
}

std::string EncodeReplyPrefix(uint64_t request_id, const ExchangeReply& reply,
                              uint64_t received_bytes) {
  ReplyHeader header = HeaderOf(request_id, reply);
  header.received_bytes = received_bytes;
  return EncodePrefix(header, reply.values.size_bytes());
}

std::string EncodeNextPrefix(size_t frame_bytes) {
  std::string prefix;
  AppendVarint(kNextTag, &prefix);
  AppendVarint(static_cast<uint32_t>(frame_bytes), &prefix);
  return prefix;
}

std::string EncodeRequestReceipt(uint64_t received_bytes) {
  RequestHeader header;
  header.has_receipts = true;
  header.received_bytes = received_bytes;
  return EncodePrefix(header, /*payload_bytes=*/0);
}

std::string EncodeReplyReceipt(uint64_t received_bytes) {
  ReplyHeader header;
  header.received_bytes = received_bytes;
  return EncodePrefix(header, /*payload_bytes=*/0);
}

absl::StatusOr<RequestFrame> DecodeRequest(const Payload& frame, NextFrames* next) {
  RequestHeader header;
  RequestFrame decoded;
  RETURN_IF_ERROR(DecodeFrame(frame, &header, &decoded.request.gradient, next));
  FromHeader(header, &decoded);
  return decoded;
}

absl::StatusOr<ReplyFrame> DecodeReply(const Payload& frame, NextFrames* next) {
  ReplyHeader header;
  ReplyFrame decoded;
  RETURN_IF_ERROR(DecodeFrame(frame, &header, &decoded.reply.values, next));
  FromHeader(header, &decoded);
  return decoded;
}

}  // namespace capstan
