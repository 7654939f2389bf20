#ifndef SERVER_COORDINATOR_STATE_STATE_FILE_H_
#define SERVER_COORDINATOR_STATE_STATE_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan {

// A file of a coordinator's state: "capstan-state\n", the format's version (uint32), the length of
// the payload and its XXH3-64 (uint64 each, all little-endian), and the payload, a serialized
// message.
std::string EncodeStateFile(absl::string_view payload);

struct StateFile {
  absl::string_view payload;  // within the decoded bytes
  uint64_t xxh3 = 0;          // of the payload
};

// Decodes bytes of EncodeStateFile. DATA_LOSS: they are damaged, or something else.
// FAILED_PRECONDITION: a newer version has written them. The caller names the file.
absl::StatusOr<StateFile> DecodeStateFile(absl::string_view bytes);

}  // namespace capstan

#endif  // SERVER_COORDINATOR_STATE_STATE_FILE_H_
