#ifndef COMMON_WIRE_FRAME_EXAMPLES_H_
#define COMMON_WIRE_FRAME_EXAMPLES_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "common/base/ids.h"
#include "common/base/random.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/exchange/payload.h"
#include "common/exchange/request_parts.h"
#include "proto/exchange.pb.h"

namespace capstan {

// What the tests of frames share.

// `bytes` cut into fragments of at most `fragment_bytes`.
inline Payload Fragmented(const std::string& bytes, size_t fragment_bytes) {
  auto owner = std::make_shared<std::string>(bytes);
  Payload payload(owner);
  for (size_t i = 0; i < owner->size(); i += fragment_bytes) {
    payload.Append({reinterpret_cast<const uint8_t*>(owner->data()) + i,
                    std::min(fragment_bytes, owner->size() - i)});
  }
  return payload;
}

inline std::string Bytes(const Payload& payload) {
  std::string bytes;
  for (const Payload::Fragment fragment : payload.fragments()) {
    bytes.append(reinterpret_cast<const char*>(fragment.data()), fragment.size());
  }
  return bytes;
}

inline ExchangeRequest ExampleRequest(const std::string& gradient) {
  ExchangeRequest request;
  request.sender = {0x0123456789abcdef, WorkerId(3), Incarnation(77)};
  request.epoch = Epoch(2);
  request.slice = {TableId(5), SliceIndex(6)};
  request.purpose = MakeDenseStep(Step(41), Step(42), Fragmented(gradient, 5));
  return request;
}

inline ExchangeReply ExampleReply(const std::string& values) {
  ExchangeReply reply;
  reply.version = 12;
  reply.min_step = Step(11);
  reply.values = Fragmented(values, 8);
  return reply;
}

// ExampleRequest of a client with receipts, as a generated message.
inline v1::ExchangeRequest GeneratedRequest(uint64_t request_id, const std::string& gradient) {
  v1::ExchangeRequest request;
  request.mutable_header()->set_request_id(request_id);
  request.mutable_header()->set_job(0x0123456789abcdef);
  request.mutable_header()->set_worker(3);
  request.mutable_header()->set_incarnation(77);
  request.mutable_header()->set_epoch(2);
  request.mutable_header()->set_table(5);
  request.mutable_header()->set_slice(6);
  request.mutable_header()->mutable_dense_step()->set_push_step(41);
  request.mutable_header()->mutable_dense_step()->set_pull_step(42);
  request.mutable_header()->set_has_receipts(true);
  request.mutable_header()->set_reads_next(true);
  request.set_payload(gradient);
  return request;
}

inline v1::ExchangeReply GeneratedReply(uint64_t request_id, const std::string& values) {
  v1::ExchangeReply reply;
  reply.mutable_header()->set_request_id(request_id);
  reply.mutable_header()->set_version(12);
  reply.mutable_header()->set_min_step(11);
  reply.set_payload(values);
  return reply;
}

// `message` with three random bytes overwritten.
inline std::string WithFlips(std::string message, Random& random) {
  for (int flips = 0; flips < 3; ++flips) {
    message[random.UniformInt(message.size())] = static_cast<char>(random());
  }
  return message;
}

}  // namespace capstan

#endif  // COMMON_WIRE_FRAME_EXAMPLES_H_
