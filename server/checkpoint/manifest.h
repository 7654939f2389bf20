#ifndef SERVER_CHECKPOINT_MANIFEST_H_
#define SERVER_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/checkpoint.pb.h"

namespace capstan {

// Names within the folder of a checkpoint.
inline constexpr char kManifestFile[] = "manifest";
std::string ShardFileName(uint32_t shard);

// The manifest's text, with its checksum in the last line.
std::string EncodeManifest(const v1::CheckpointManifest& manifest);

// The XXH3-64 of that text.
uint64_t HashManifest(const v1::CheckpointManifest& manifest);

// Decodes text of EncodeManifest. `path` is for errors. DATA_LOSS: it is damaged. INVALID_ARGUMENT:
// it is of another format, or its fields contradict each other.
absl::StatusOr<v1::CheckpointManifest> DecodeManifest(absl::string_view text,
                                                      const std::string& path);

// Whether `folder` is no complete checkpoint any more. A job removes old ones, the manifest first.
bool IsRemoved(const std::string& folder);

// Reads the manifest in `folder`. NOT_FOUND: there is none, so the checkpoint is not complete.
absl::StatusOr<v1::CheckpointManifest> ReadManifest(const std::string& folder);

}  // namespace capstan

#endif  // SERVER_CHECKPOINT_MANIFEST_H_
