// Headers of messages over UCX, alone and in a batch; greetings and grants.
#include <glog/logging.h>

#include <string>

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

// Writes a parsed header, then reads and writes it again: the bytes stay the same.
void DecodeHeader(Bytes header) {
  std::string written, written_again;
  RequestFrame request, same_request;
  if (DecodeHeader(header, &request).ok()) {
    EncodeHeader(request.request_id, request.request, &written);
    CHECK(DecodeHeader(BytesOf(written), &same_request).ok());
    EncodeHeader(same_request.request_id, same_request.request, &written_again);
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
  DecodeHeader(BytesOf(input.rest()));
  DecodeSignal(BytesOf(input.rest()));
  ReadBatch(BytesOf(input.rest()), [](Bytes header, Bytes payload) {
    DecodeHeader(header);
    // As if the payload was copied.
    return std::string(payload.begin(), payload.end()).size() == payload.size();
  });
}

}  // namespace
}  // namespace capstan

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  capstan::Fuzz(capstan::FuzzInput(data, size));
  return 0;
}
