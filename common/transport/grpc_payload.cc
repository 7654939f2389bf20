#include "common/transport/grpc_payload.h"

#include <glog/logging.h>
#include <grpcpp/support/slice.h>

#include <memory>
#include <utility>
#include <vector>

namespace capstan {
namespace {

void ReleaseOwner(void* owner) { delete static_cast<std::shared_ptr<const void>*>(owner); }

}  // namespace

grpc::ByteBuffer ToByteBuffer(const std::string& prefix, const Payload& payload) {
  std::vector<grpc::Slice> slices;
  slices.reserve(1 + payload.fragments().size());
  slices.emplace_back(prefix);
  for (const Payload::Fragment fragment : payload.fragments()) {
    // gRPC only reads through the pointer.
    slices.emplace_back(const_cast<uint8_t*>(fragment.data()), fragment.size(), &ReleaseOwner,
                        new std::shared_ptr<const void>(payload.owner()));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

Payload FromByteBuffer(const grpc::ByteBuffer& buffer) {
  auto slices = std::make_shared<std::vector<grpc::Slice>>();
  CHECK(buffer.Dump(slices.get()).ok()) << "a received message has no bytes";
  Payload payload(slices);
  for (const grpc::Slice& slice : *slices) payload.Append({slice.begin(), slice.size()});
  return payload;
}

}  // namespace capstan
