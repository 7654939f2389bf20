#include "common/wire/frame.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "proto/exchange.pb.h"

namespace capstan {
namespace {

using ::google::protobuf::io::CodedInputStream;
using ::google::protobuf::io::CodedOutputStream;

// Requests and replies number these fields alike.
constexpr int kHeaderField = v1::ExchangeRequest::kHeaderFieldNumber;
constexpr int kPayloadField = v1::ExchangeRequest::kPayloadFieldNumber;
constexpr int kNextField = v1::ExchangeRequest::kNextFieldNumber;
static_assert(kHeaderField == int{v1::ExchangeReply::kHeaderFieldNumber});
static_assert(kPayloadField == int{v1::ExchangeReply::kPayloadFieldNumber});
static_assert(kNextField == int{v1::ExchangeReply::kNextFieldNumber});

// The low three bits of a tag, as defined by the protobuf encoding.
enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

constexpr uint32_t TagOf(int field) {
  return static_cast<uint32_t>(field) << 3 | uint32_t{kLengthDelimited};
}
constexpr uint32_t kHeaderTag = TagOf(kHeaderField);
constexpr uint32_t kPayloadTag = TagOf(kPayloadField);
constexpr uint32_t kNextTag = TagOf(kNextField);

// Lets protobuf's parser read the fragments of a payload.
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
std::string EncodeFramePrefix(const Header& header, size_t payload_bytes) {
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

// Skips an unknown field. False: the bytes are malformed.
bool SkipField(CodedInputStream& input, uint32_t tag) {
  uint64_t number = 0;
  uint32_t size = 0;
  switch (tag & 7) {
    case kVarint:
      return input.ReadVarint64(&number);
    case kFixed64:
      return input.Skip(sizeof(uint64_t));
    case kLengthDelimited:
      return input.ReadVarint32(&size) && size <= INT32_MAX && input.Skip(static_cast<int>(size));
    case kFixed32:
      return input.Skip(sizeof(uint32_t));
    default:
      return false;  // Proto3 has no groups.
  }
}

// Reads one field. False: the bytes are malformed.
template <typename Header>
bool ReadField(CodedInputStream& input, uint32_t tag, const Payload& frame, Header* header,
               Payload* payload, NextFrames* next) {
  if (tag != kHeaderTag && tag != kPayloadTag && tag != kNextTag) return SkipField(input, tag);
  uint32_t size = 0;
  if (!input.ReadVarint32(&size)) return false;
  const uint64_t position = input.CurrentPosition();
  if (size > frame.size_bytes() - position) return false;
  if (tag == kHeaderTag) {
    if (size > kMaxHeaderBytes) return false;
    const CodedInputStream::Limit limit = input.PushLimit(static_cast<int>(size));
    if (!header->MergeFromCodedStream(&input) || !input.ConsumedEntireMessage()) return false;
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
          "malformed frame: expected a ", Header::descriptor()->full_name(), " of at most ",
          kMaxHeaderBytes, " bytes and a payload as in proto/exchange.proto, ",
          next == nullptr ? "and no frame within one that follows another"
                          : absl::StrCat("and at most ", kMostNext, " frames that follow"),
          ", got ", frame.size_bytes(), " bytes that are no such message"));
    }
  }
  // If an invalid tag spans fragments, CurrentPosition() is behind it.
  if (!input.ConsumedEntireMessage()) {
    return absl::InvalidArgumentError(absl::StrCat("malformed frame: expected a field before byte ",
                                                   input.CurrentPosition() + 1, " of ",
                                                   frame.size_bytes()));
  }
  if (next != nullptr) *next = std::move(followers);
  return absl::OkStatus();
}

}  // namespace

std::string EncodePrefix(uint64_t request_id, const ExchangeRequest& request,
                         std::optional<uint64_t> received_bytes) {
  v1::ExchangeRequestHeader header = ToHeader(request_id, request);
  if (received_bytes.has_value()) {
    header.set_has_receipts(true);
    header.set_received_bytes(*received_bytes);
    header.set_reads_next(true);
  }
  return EncodeFramePrefix(header, PayloadBytes(request));
}

std::string EncodePrefix(uint64_t request_id, const ExchangeReply& reply, uint64_t received_bytes) {
  v1::ExchangeReplyHeader header = ToHeader(request_id, reply);
  header.set_received_bytes(received_bytes);
  return EncodeFramePrefix(header, reply.values.size_bytes());
}

std::string EncodeNextPrefix(size_t frame_bytes) {
  std::string prefix;
  AppendVarint(kNextTag, &prefix);
  AppendVarint(static_cast<uint32_t>(frame_bytes), &prefix);
  return prefix;
}

template <>
std::string EncodeReceipt<ExchangeRequest>(uint64_t received_bytes) {
  v1::ExchangeRequestHeader header;
  header.set_has_receipts(true);
  header.set_received_bytes(received_bytes);
  return EncodeFramePrefix(header, /*payload_bytes=*/0);
}

template <>
std::string EncodeReceipt<ExchangeReply>(uint64_t received_bytes) {
  v1::ExchangeReplyHeader header;
  header.set_received_bytes(received_bytes);
  return EncodeFramePrefix(header, /*payload_bytes=*/0);
}

absl::StatusOr<RequestFrame> DecodeRequest(const Payload& frame, NextFrames* next) {
  v1::ExchangeRequestHeader header;
  Payload payload;
  RETURN_IF_ERROR(DecodeFrame(frame, &header, &payload, next));
  RequestFrame decoded;
  FromHeader(header, payload.size_bytes(), &decoded);
  if (decoded.request.ok()) SetPayload(std::move(payload), &decoded);
  return decoded;
}

absl::StatusOr<ReplyFrame> DecodeReply(const Payload& frame, NextFrames* next) {
  v1::ExchangeReplyHeader header;
  ReplyFrame decoded;
  RETURN_IF_ERROR(DecodeFrame(frame, &header, &decoded.reply.values, next));
  FromHeader(header, &decoded);
  return decoded;
}

}  // namespace capstan
