// Headers of messages over UCX, alone and in a batch; greetings and grants.
#include <glog/logging.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/transport/ucx/ucx_protocol.h"
#include "common/wire/exchange_header.h"
#include "common/wire/message_batch.h"
#include "tests/fuzz/fuzz_input.h"

namespace capstan {
namespace {

using Bytes = absl::Span<const uint8_t>;

Bytes BytesOf(absl::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// The request of a message; none: it is no header, or its parts do not fit together.
std::optional<ExchangeRequest> RequestOf(Bytes header, const Payload& payload) {
  RequestFrame frame;
  if (!DecodeHeader(header, payload.size_bytes(), &frame).ok() || !frame.request.ok()) {
    return std::nullopt;
  }
  SetPayload(payload, &frame);
  return *std::move(frame.request);
}

// Writes a parsed message, then reads and writes it again: the bytes stay the same.
void DecodeMessage(Bytes header, Bytes payload) {
  std::string written, written_again;
  const auto memory = std::make_shared<std::vector<uint8_t>>(payload.begin(), payload.end());
  Payload owned(memory);
  owned.Append(*memory);
  if (const auto request = RequestOf(header, owned)) {
    EncodeHeader(/*request_id=*/1, *request, &written);
    const auto same = RequestOf(BytesOf(written), TakePayload(ExchangeRequest(*request)));
    CHECK(same.has_value());
    EncodeHeader(/*request_id=*/1, *same, &written_again);
    CHECK(written_again == written);
  }
  ReplyFrame reply, same_reply;
  if (DecodeHeader(header, &reply).ok()) {
    EncodeHeader(reply.request_id, reply.reply, &written);
    CHECK(DecodeHeader(BytesOf(written), &same_reply).ok());
    EncodeHeader(same_reply.request_id, same_reply.reply, &written_again);
    CHECK(written_again == written);
  }
}

void DecodeSignal(Bytes header) {
  const std::string bytes(header.begin(), header.end());
  if (const auto greeting = DecodeGreeting(header)) CHECK_EQ(EncodeGreeting(*greeting), bytes);
  if (const auto grant = DecodeGrant(header)) CHECK_EQ(EncodeGrant(*grant), bytes);
}

void Fuzz(FuzzInput input) {
  DecodeMessage(BytesOf(input.rest()), {});
  DecodeSignal(BytesOf(input.rest()));
  ReadBatch(BytesOf(input.rest()), [](Bytes header, Bytes payload) {
    DecodeMessage(header, payload);
    return true;
  });
}

}  // namespace
}  // namespace capstan

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  capstan::Fuzz(capstan::FuzzInput(data, size));
  return 0;
}
