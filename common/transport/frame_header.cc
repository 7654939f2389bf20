#include "common/transport/frame_header.h"

#include <google/protobuf/io/coded_stream.h>

#include "absl/strings/str_cat.h"
#include "common/base/ids.h"
#include "common/base/printable_text.h"

namespace capstan {
namespace {

template <typename Header, typename Frame>
absl::Status DecodeHeader(absl::Span<const uint8_t> bytes, Frame* decoded) {
  Header header;
  google::protobuf::io::CodedInputStream input(bytes.data(), static_cast<int>(bytes.size()));
  if (!MergeHeader(input, &header)) {
    return absl::InvalidArgumentError(absl::StrCat("malformed header: expected a ", Header::kName,
                                                   ", got ", bytes.size(),
                                                   " bytes that are no such message"));
  }
  FromHeader(header, decoded);
  return absl::OkStatus();
}

}  // namespace

RequestHeader HeaderOf(uint64_t request_id, const ExchangeRequest& request) {
  RequestHeader header;
  header.request_id = request_id;
  header.job = request.job;
  header.worker = request.worker.value();
  header.incarnation = request.incarnation.value();
  header.epoch = request.epoch.value();
  header.table = request.slice.table.value();
  header.slice = request.slice.slice.value();
  if (request.push_step.has_value()) {
    header.has_push = true;
    header.push_step = request.push_step->value();
  }
  if (request.pull_step.has_value()) {
    header.has_pull = true;
    header.pull_step = request.pull_step->value();
  }
  if (request.base_version.has_value()) {
    header.has_base_version = true;
    header.base_version = *request.base_version;
  }
  return header;
}

ReplyHeader HeaderOf(uint64_t request_id, const ExchangeReply& reply) {
  ReplyHeader header;
  header.request_id = request_id;
  if (!reply.status.ok()) {
    header.code = static_cast<int>(reply.status.code());
    header.message = std::string(reply.status.message());
  }
  header.version = reply.version;
  header.min_step = reply.min_step.value();
  header.epoch = reply.epoch.value();
  header.learning_rate_divisor = reply.learning_rate_divisor;
  return header;
}

void FromHeader(const RequestHeader& header, RequestFrame* decoded) {
  decoded->request_id = header.request_id;
  if (header.has_receipts) decoded->received_bytes = header.received_bytes;
  decoded->reads_next = header.reads_next;
  ExchangeRequest& request = decoded->request;
  request.job = header.job;
  request.worker = WorkerId(header.worker);
  request.incarnation = Incarnation(header.incarnation);
  request.epoch = Epoch(header.epoch);
  request.slice = {TableId(header.table), SliceIndex(header.slice)};
  if (header.has_push) request.push_step = Step(header.push_step);
  if (header.has_pull) request.pull_step = Step(header.pull_step);
  if (header.has_base_version) request.base_version = header.base_version;
}

void FromHeader(const ReplyHeader& header, ReplyFrame* decoded) {
  decoded->request_id = header.request_id;
  decoded->received_bytes = header.received_bytes;
  ExchangeReply& reply = decoded->reply;
  if (header.code != 0) {
    reply.status =
        absl::Status(static_cast<absl::StatusCode>(header.code), PrintableText(header.message));
  }
  reply.version = header.version;
  reply.min_step = Step(header.min_step);
  reply.epoch = Epoch(header.epoch);
  reply.learning_rate_divisor = header.learning_rate_divisor;
}

void EncodeRequestHeader(uint64_t request_id, const ExchangeRequest& request, std::string* header) {
  header->clear();
  AppendHeader(HeaderOf(request_id, request), header);
}

void EncodeReplyHeader(uint64_t request_id, const ExchangeReply& reply, std::string* header) {
  header->clear();
  AppendHeader(HeaderOf(request_id, reply), header);
}

absl::Status DecodeRequestHeader(absl::Span<const uint8_t> header, RequestFrame* frame) {
  return DecodeHeader<RequestHeader>(header, frame);
}

absl::Status DecodeReplyHeader(absl::Span<const uint8_t> header, ReplyFrame* frame) {
  return DecodeHeader<ReplyHeader>(header, frame);
}

}  // namespace capstan
