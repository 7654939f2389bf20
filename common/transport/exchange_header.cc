#include "common/transport/exchange_header.h"

#include <glog/logging.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstddef>
#include <type_traits>

#include "proto/exchange.pb.h"

namespace capstan {
namespace {

using ::google::protobuf::internal::WireFormatLite;
using ::google::protobuf::io::CodedInputStream;
using ::google::protobuf::io::CodedOutputStream;

// Fields in the order of their numbers, in which any protobuf library writes them.
template <typename Header, typename Fields>
void ForEachFieldOfRequest(Header& header, Fields& fields) {
  using Proto = v1::ExchangeRequestHeader;
  fields.Varint(Proto::kRequestIdFieldNumber, header.request_id);
  fields.Fixed64(Proto::kJobFieldNumber, header.job);
  fields.Varint(Proto::kWorkerFieldNumber, header.worker);
  fields.Fixed64(Proto::kIncarnationFieldNumber, header.incarnation);
  fields.Varint(Proto::kEpochFieldNumber, header.epoch);
  fields.Varint(Proto::kTableFieldNumber, header.table);
  fields.Varint(Proto::kSliceFieldNumber, header.slice);
  fields.Varint(Proto::kHasPushFieldNumber, header.has_push);
  fields.Varint(Proto::kPushStepFieldNumber, header.push_step);
  fields.Varint(Proto::kHasPullFieldNumber, header.has_pull);
  fields.Varint(Proto::kPullStepFieldNumber, header.pull_step);
  fields.Varint(Proto::kHasReceiptsFieldNumber, header.has_receipts);
  fields.Varint(Proto::kReceivedBytesFieldNumber, header.received_bytes);
  fields.Varint(Proto::kReadsNextFieldNumber, header.reads_next);
  fields.Varint(Proto::kHasBaseVersionFieldNumber, header.has_base_version);
  fields.Varint(Proto::kBaseVersionFieldNumber, header.base_version);
}

template <typename Header, typename Fields>
void ForEachFieldOfReply(Header& header, Fields& fields) {
  using Proto = v1::ExchangeReplyHeader;
  fields.Varint(Proto::kRequestIdFieldNumber, header.request_id);
  fields.Varint(Proto::kCodeFieldNumber, header.code);
  fields.String(Proto::kMessageFieldNumber, header.message);
  fields.Varint(Proto::kVersionFieldNumber, header.version);
  fields.Varint(Proto::kMinStepFieldNumber, header.min_step);
  fields.Varint(Proto::kEpochFieldNumber, header.epoch);
  fields.Varint(Proto::kReceivedBytesFieldNumber, header.received_bytes);
  fields.Varint(Proto::kLearningRateDivisorFieldNumber, header.learning_rate_divisor);
}

// Writes what is not the default, into memory that is large enough.
class Writer {
 public:
  // A tag of a field below 2048 and a value of 10 bytes at most, of the 19 fields of a request.
  static constexpr size_t kMostScalarBytes = 19 * 12;

  explicit Writer(uint8_t* end) : end_(end) {}
  uint8_t* end() const { return end_; }

  template <typename Value>
  void Varint(int field, Value value) {
    if (value == 0) return;
    WriteTag(field, WireFormatLite::WIRETYPE_VARINT);
    // Negative numbers of 32 bits are written as those of 64 bits.
    using Wide = std::conditional_t<std::is_signed_v<Value>, int64_t, uint64_t>;
    end_ = CodedOutputStream::WriteVarint64ToArray(static_cast<uint64_t>(static_cast<Wide>(value)),
                                                   end_);
  }
  void Fixed64(int field, uint64_t value) {
    if (value == 0) return;
    WriteTag(field, WireFormatLite::WIRETYPE_FIXED64);
    end_ = CodedOutputStream::WriteLittleEndian64ToArray(value, end_);
  }
  void String(int field, const std::string& value) {
    if (value.empty()) return;
    WriteTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
    end_ = CodedOutputStream::WriteVarint32ToArray(static_cast<uint32_t>(value.size()), end_);
    end_ = CodedOutputStream::WriteStringToArray(value, end_);
  }

 private:
  void WriteTag(int field, WireFormatLite::WireType type) {
    end_ = CodedOutputStream::WriteTagToArray(WireFormatLite::MakeTag(field, type), end_);
  }

  uint8_t* end_;
};

// Reads those fields that come next, in one pass over all.
class Reader {
 public:
  explicit Reader(CodedInputStream* input) : input_(*input), tag_(input->ReadTag()) {}

  // A field of the message is next, perhaps an unknown one.
  bool has_more() const { return is_valid_ && tag_ != 0; }
  bool is_whole() { return is_valid_ && input_.ConsumedEntireMessage(); }

  template <typename Value>
  void Varint(int field, Value& value) {
    uint64_t read = 0;
    if (!IsNext(field, WireFormatLite::WIRETYPE_VARINT)) return;
    Next(input_.ReadVarint64(&read));
    value = std::is_same_v<Value, bool> ? read != 0 : static_cast<Value>(read);
  }
  void Fixed64(int field, uint64_t& value) {
    uint64_t read = 0;
    if (!IsNext(field, WireFormatLite::WIRETYPE_FIXED64)) return;
    Next(input_.ReadLittleEndian64(&read));
    value = read;
  }
  void String(int field, std::string& value) {
    if (!IsNext(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED)) return;
    uint32_t size = 0;
    Next(input_.ReadVarint32(&size) && input_.ReadString(&value, static_cast<int>(size)));
  }
  void SkipUnlessRead(uint64_t reads_before) {
    if (reads_ == reads_before && has_more()) Next(WireFormatLite::SkipField(&input_, tag_));
  }
  uint64_t reads() const { return reads_; }

 private:
  bool IsNext(int field, WireFormatLite::WireType type) const {
    return tag_ == WireFormatLite::MakeTag(field, type);
  }
  void Next(bool is_valid) {
    ++reads_;
    is_valid_ = is_valid;
    tag_ = is_valid ? input_.ReadTag() : 0;
  }

  CodedInputStream& input_;
  uint32_t tag_;  // that is next; 0 at the end
  bool is_valid_ = true;
  uint64_t reads_ = 0;
};

template <typename Write>
void Append(size_t most_bytes, std::string* bytes, Write write) {
  const size_t begin = bytes->size();
  bytes->resize(begin + most_bytes);
  auto* const memory = reinterpret_cast<uint8_t*>(bytes->data());
  Writer writer(memory + begin);
  write(writer);
  CHECK_LE(writer.end() - memory, static_cast<ptrdiff_t>(bytes->size()));
  bytes->resize(writer.end() - memory);
}

template <typename Read>
bool Merge(CodedInputStream& input, Read read) {
  Reader reader(&input);
  while (reader.has_more()) {
    const uint64_t reads_before = reader.reads();
    read(reader);
    reader.SkipUnlessRead(reads_before);
  }
  return reader.is_whole();
}

}  // namespace

void AppendHeader(const RequestHeader& header, std::string* bytes) {
  Append(Writer::kMostScalarBytes, bytes,
         [&header](Writer& writer) { ForEachFieldOfRequest(header, writer); });
}

void AppendHeader(const ReplyHeader& header, std::string* bytes) {
  Append(Writer::kMostScalarBytes + header.message.size(), bytes,
         [&header](Writer& writer) { ForEachFieldOfReply(header, writer); });
}

bool MergeHeader(CodedInputStream& input, RequestHeader* header) {
  return Merge(input, [header](Reader& reader) { ForEachFieldOfRequest(*header, reader); });
}

bool MergeHeader(CodedInputStream& input, ReplyHeader* header) {
  return Merge(input, [header](Reader& reader) { ForEachFieldOfReply(*header, reader); });
}

}  // namespace capstan
