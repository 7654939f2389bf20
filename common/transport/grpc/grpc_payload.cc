#include "common/transport/grpc/grpc_payload.h"

#include <glog/logging.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/wire/frame.h"

namespace capstan {
namespace {

void DeleteBytes(void* bytes, size_t /*size*/) { delete[] static_cast<uint8_t*>(bytes); }

void ReleaseOwner(void* owner) { delete static_cast<std::shared_ptr<const void>*>(owner); }

void AppendInPlace(const std::string& prefix, const Payload& payload,
                   std::vector<grpc::Slice>& slices) {
  slices.emplace_back(prefix);
  for (const Payload::Fragment fragment : payload.fragments()) {
    // gRPC only reads through the pointer.
    slices.emplace_back(const_cast<uint8_t*>(fragment.data()), fragment.size(), &ReleaseOwner,
                        new std::shared_ptr<const void>(payload.owner()));
  }
}

}  // namespace

grpc::ByteBuffer ToByteBuffer(const std::string& prefix, const Payload& payload) {
  std::vector<grpc::Slice> slices;
  AppendInPlace(prefix, payload, slices);
  return grpc::ByteBuffer(slices.data(), slices.size());
}

bool GrpcMessage::Takes(size_t payload_bytes) const {
  if (frames_.empty()) return true;
  return frames_.size() <= kMostNext && prefix_bytes_ <= kTogetherBytes &&
         payload_bytes_ + payload_bytes <= kTogetherBytes;
}

void GrpcMessage::Add(std::string prefix, Payload payload) {
  if (!frames_.empty()) {
    prefix.insert(0, EncodeNextPrefix(prefix.size() + payload.size_bytes()));
  }
  payload_bytes_ += payload.size_bytes();
  prefix_bytes_ += prefix.size();
  frames_.push_back({std::move(prefix), std::move(payload)});
}

grpc::ByteBuffer GrpcMessage::Take() {
  const absl::InlinedVector<Frame, 1> frames = std::exchange(frames_, {});
  const size_t payload_bytes = std::exchange(payload_bytes_, 0);
  prefix_bytes_ = 0;
  if (frames.size() == 1 || payload_bytes > kCopiedBytes) {
    std::vector<grpc::Slice> slices;
    for (const Frame& frame : frames) AppendInPlace(frame.prefix, frame.payload, slices);
    return grpc::ByteBuffer(slices.data(), slices.size());
  }
  // A copy of a few small payloads costs less than one gRPC slice for each.
  size_t size = payload_bytes;
  for (const Frame& frame : frames) size += frame.prefix.size();
  auto* const bytes = new uint8_t[size];
  uint8_t* end = bytes;
  for (const Frame& frame : frames) {
    end = std::copy(frame.prefix.begin(), frame.prefix.end(), end);
    for (const Payload::Fragment fragment : frame.payload.fragments()) {
      end = std::copy(fragment.begin(), fragment.end(), end);
    }
  }
  const grpc::Slice slice(bytes, size, &DeleteBytes);
  return grpc::ByteBuffer(&slice, 1);
}

Payload FromByteBuffer(const grpc::ByteBuffer& buffer) {
  auto slices = std::make_shared<std::vector<grpc::Slice>>();
  CHECK(buffer.Dump(slices.get()).ok()) << "a received message has no bytes";
  Payload payload(slices);
  for (const grpc::Slice& slice : *slices) payload.Append({slice.begin(), slice.size()});
  return payload;
}

}  // namespace capstan
