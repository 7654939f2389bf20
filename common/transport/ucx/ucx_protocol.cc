#include "common/transport/ucx/ucx_protocol.h"

#include "common/base/little_endian.h"

namespace capstan {

std::string EncodeGreeting(const UcxGreeting& greeting) {
  std::string header;
  AppendLittleEndian(greeting.version, &header);
  return header + greeting.secret;
}

std::optional<UcxGreeting> DecodeGreeting(absl::Span<const uint8_t> header) {
  UcxGreeting greeting;
  if (header.size() != sizeof(greeting.version) + UcxGreeting::kSecretBytes) return std::nullopt;
  greeting.version = ReadLittleEndian<uint32_t>(header.data());
  header.remove_prefix(sizeof(greeting.version));
  greeting.secret.assign(header.begin(), header.end());
  return greeting;
}

std::string EncodeGrant(uint64_t bytes) {
  std::string header;
  AppendLittleEndian(bytes, &header);
  return header;
}

std::optional<uint64_t> DecodeGrant(absl::Span<const uint8_t> header) {
  if (header.size() != sizeof(uint64_t)) return std::nullopt;
  return ReadLittleEndian<uint64_t>(header.data());
}

}  // namespace capstan
