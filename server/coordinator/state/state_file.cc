#include "server/coordinator/state/state_file.h"

#include <xxhash.h>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/little_endian.h"

namespace capstan {
namespace {

constexpr absl::string_view kMagic = "capstan-state\n";
constexpr uint32_t kFormatVersion = 1;
constexpr size_t kVersionAt = kMagic.size();
constexpr size_t kLengthAt = kVersionAt + sizeof(uint32_t);
constexpr size_t kHashAt = kLengthAt + sizeof(uint64_t);
constexpr size_t kPayloadAt = kHashAt + sizeof(uint64_t);

template <typename Number>
Number NumberAt(absl::string_view bytes, size_t offset) {
  return ReadLittleEndian<Number>(reinterpret_cast<const uint8_t*>(bytes.data()) + offset);
}

absl::Status Torn(uint64_t expected_bytes, uint64_t bytes) {
  return absl::DataLossError(
      absl::StrCat("expected ", expected_bytes, " bytes, got ", bytes, "; it is damaged"));
}

}  // namespace

std::string EncodeStateFile(absl::string_view payload) {
  std::string bytes(kMagic);
  bytes.reserve(kPayloadAt + payload.size());
  AppendLittleEndian<uint32_t>(kFormatVersion, &bytes);
  AppendLittleEndian<uint64_t>(payload.size(), &bytes);
  AppendLittleEndian<uint64_t>(XXH3_64bits(payload.data(), payload.size()), &bytes);
  absl::StrAppend(&bytes, payload);
  return bytes;
}

absl::StatusOr<StateFile> DecodeStateFile(absl::string_view bytes) {
  if (!absl::StartsWith(bytes, kMagic.substr(0, bytes.size()))) {
    return absl::DataLossError(
        "expected a state of a Capstan coordinator, which begins with \"capstan-state\", got "
        "something else");
  }
  if (bytes.size() < kPayloadAt) return Torn(kPayloadAt, bytes.size());
  const auto version = NumberAt<uint32_t>(bytes, kVersionAt);
  if (version > kFormatVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("expected format ", kFormatVersion, ", got ", version,
                     ", written by a newer version of Capstan; use that version"));
  }
  StateFile file = {bytes.substr(kPayloadAt), NumberAt<uint64_t>(bytes, kHashAt)};
  const auto length = NumberAt<uint64_t>(bytes, kLengthAt);
  if (length != file.payload.size()) return Torn(kPayloadAt + length, bytes.size());
  const uint64_t hash = XXH3_64bits(file.payload.data(), file.payload.size());
  if (version == kFormatVersion && hash == file.xxh3) return file;
  return absl::DataLossError(
      absl::StrFormat("expected format %d and contents with the XXH3-64 %016x, got format %d and "
                      "%016x; it is damaged",
                      kFormatVersion, file.xxh3, version, hash));
}

}  // namespace capstan
