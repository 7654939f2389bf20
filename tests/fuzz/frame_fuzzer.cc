// Frames of gRPC: in one piece, in fragments, and after another frame.
#include <glog/logging.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/exchange/payload.h"
#include "common/wire/frame.h"
#include "tests/fuzz/fuzz_input.h"

namespace capstan {
namespace {

// The bytes as a transport receives them, in pieces of `piece_bytes`.
Payload Received(absl::string_view bytes, size_t piece_bytes) {
  Payload payload;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece_bytes, bytes.size()))) {
    const absl::string_view piece = bytes.substr(0, piece_bytes);
    payload.Append({reinterpret_cast<const uint8_t*>(piece.data()), piece.size()});
  }
  return payload;
}

std::string BytesOf(const Payload& payload) {
  std::string bytes;
  for (const Payload::Fragment fragment : payload.fragments()) {
    bytes.append(reinterpret_cast<const char*>(fragment.data()), fragment.size());
  }
  return bytes;
}

void ReadFloats(const Payload& payload) {
  if (payload.size_bytes() % sizeof(float) != 0) return;
  std::vector<float> values(payload.size_bytes() / sizeof(float));
  payload.CopyTo(absl::MakeSpan(values));
  payload.ForEachBlock([](size_t, absl::Span<const float> block) { return block.size() > 0; });
}

// Parses a frame as both sides of a stream do. Returns the parts.
std::string Decode(const Payload& frame, NextFrames* next) {
  std::string found;
  NextFrames unused;
  if (auto request = DecodeRequest(frame, next); request.ok()) {
    found += request->request.status().ToString();
    if (request->request.ok()) {
      ForEachPayload(*request->request, [&found](Payload& part) {
        ReadFloats(part);
        found += BytesOf(part);
      });
      found += EncodePrefix(request->request_id, *request->request, request->received_bytes);
    }
  }
  if (const auto reply = DecodeReply(frame, next == nullptr ? nullptr : &unused); reply.ok()) {
    ReadFloats(reply->reply.values);
    found += EncodePrefix(reply->request_id, reply->reply, reply->received_bytes) +
             BytesOf(reply->reply.values);
  }
  return found;
}

void Fuzz(FuzzInput input) {
  const size_t piece_bytes = 1 + input.TakeByte() % 32;
  NextFrames next, next_in_pieces;
  const std::string whole = Decode(Received(input.rest(), input.rest().size()), &next);
  const std::string in_pieces = Decode(Received(input.rest(), piece_bytes), &next_in_pieces);
  CHECK_EQ(whole, in_pieces);
  CHECK_EQ(next.size(), next_in_pieces.size());
  for (size_t i = 0; i < next.size(); ++i) {
    CHECK_EQ(Decode(next[i], nullptr), Decode(next_in_pieces[i], nullptr));
  }
}

}  // namespace
}  // namespace capstan

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  capstan::Fuzz(capstan::FuzzInput(data, size));
  return 0;
}
