#include "common/wire/message_batch.h"

#include "common/base/little_endian.h"

namespace capstan {
namespace {

// Size of the two lengths.
constexpr size_t kLengthsBytes = 2 * sizeof(uint32_t);

}  // namespace

size_t BatchedBytes(absl::string_view header, const Payload& payload) {
  return kLengthsBytes + header.size() + payload.size_bytes();
}

void AppendToBatch(absl::string_view header, const Payload& payload, std::string* batch) {
  AppendLittleEndian(static_cast<uint32_t>(header.size()), batch);
  AppendLittleEndian(static_cast<uint32_t>(payload.size_bytes()), batch);
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
    if (batch.size() < kLengthsBytes) return false;
    const size_t header_bytes = ReadLittleEndian<uint32_t>(batch.data());
    const size_t payload_bytes = ReadLittleEndian<uint32_t>(batch.data() + sizeof(uint32_t));
    batch.remove_prefix(kLengthsBytes);
    if (batch.size() < header_bytes + payload_bytes) return false;
    if (!use(batch.first(header_bytes), batch.subspan(header_bytes, payload_bytes))) break;
    batch.remove_prefix(header_bytes + payload_bytes);
  }
  return true;
}

}  // namespace capstan
