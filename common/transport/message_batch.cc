#include "common/transport/message_batch.h"

#include <cstring>

namespace capstan {
namespace {

struct Lengths {
  uint32_t header;
  uint32_t payload;
};

}  // namespace

size_t BatchedBytes(absl::string_view header, const Payload& payload) {
  return sizeof(Lengths) + header.size() + payload.size_bytes();
}

void AppendToBatch(absl::string_view header, const Payload& payload, std::string* batch) {
  const Lengths lengths = {static_cast<uint32_t>(header.size()),
                           static_cast<uint32_t>(payload.size_bytes())};
  batch->append(reinterpret_cast<const char*>(&lengths), sizeof(lengths));
  batch->append(header.data(), header.size());
  for (const Payload::Fragment fragment : payload.fragments()) {
    batch->append(reinterpret_cast<const char*>(fragment.data()), fragment.size());
  }
}

bool ReadBatch(
    absl::Span<const uint8_t> batch,
    absl::FunctionRef<bool(absl::Span<const uint8_t> header, absl::Span<const uint8_t> payload)>
        use) {
  while (!batch.empty()) {
    Lengths lengths;
    if (batch.size() < sizeof(lengths)) return false;
    std::memcpy(&lengths, batch.data(), sizeof(lengths));
    batch.remove_prefix(sizeof(lengths));
    if (batch.size() < uint64_t{lengths.header} + lengths.payload) return false;
    if (!use(batch.first(lengths.header), batch.subspan(lengths.header, lengths.payload))) break;
    batch.remove_prefix(size_t{lengths.header} + lengths.payload);
  }
  return true;
}

}  // namespace capstan
