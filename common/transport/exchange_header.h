#ifndef COMMON_TRANSPORT_EXCHANGE_HEADER_H_
#define COMMON_TRANSPORT_EXCHANGE_HEADER_H_

#include <google/protobuf/io/coded_stream.h>

#include <cstdint>
#include <string>

namespace capstan {

// What proto/exchange.proto says of the two headers, field by field, and their bytes, as generated
// code writes and reads them: that took a tenth of all that a server does for a small exchange.
// Two things are read that generated code refuses: messages that are no UTF-8, and tags of more
// than 5 bytes.

struct RequestHeader {
  static constexpr char kName[] = "capstan.v1.ExchangeRequestHeader";  // for errors

  uint64_t request_id = 0;
  uint64_t job = 0;
  uint32_t worker = 0;
  uint64_t incarnation = 0;
  uint64_t epoch = 0;
  uint32_t table = 0;
  uint32_t slice = 0;
  bool has_push = false;
  int64_t push_step = 0;
  bool has_pull = false;
  int64_t pull_step = 0;
  bool has_receipts = false;
  uint64_t received_bytes = 0;
  bool reads_next = false;
  bool has_base_version = false;
  uint64_t base_version = 0;
};

struct ReplyHeader {
  static constexpr char kName[] = "capstan.v1.ExchangeReplyHeader";

  uint64_t request_id = 0;
  int32_t code = 0;
  std::string message;
  uint64_t version = 0;
  int64_t min_step = 0;
  uint64_t epoch = 0;
  uint64_t received_bytes = 0;
  uint64_t learning_rate_divisor = 0;
};

// Append the bytes of a v1::ExchangeRequestHeader, a v1::ExchangeReplyHeader.
void AppendHeader(const RequestHeader& header, std::string* bytes);
void AppendHeader(const ReplyHeader& header, std::string* bytes);

// Read all of `input` into the header, whose other fields stay as they are; false when it is no
// such message. Fields may come in any order; of one that comes twice the last counts; unknown
// ones are skipped.
bool MergeHeader(google::protobuf::io::CodedInputStream& input, RequestHeader* header);
bool MergeHeader(google::protobuf::io::CodedInputStream& input, ReplyHeader* header);

}  // namespace capstan

#endif  // COMMON_TRANSPORT_EXCHANGE_HEADER_H_
