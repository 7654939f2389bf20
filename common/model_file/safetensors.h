#ifndef COMMON_MODEL_FILE_SAFETENSORS_H_
#define COMMON_MODEL_FILE_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan {

// The header of a safetensors file (https://github.com/huggingface/safetensors, "Format"). A file
// is the header's length in 8 bytes, the header in JSON, and the tensors' bytes. All numbers are
// little-endian. Tensors are row-major.
struct Safetensors {
  struct Tensor {
    std::string name;
    std::string dtype;            // "F32", "I64", ...
    std::vector<uint64_t> shape;  // outermost dimension first
    uint64_t offset = 0;          // of the first byte in the file
    uint64_t bytes = 0;
  };

  std::vector<Tensor> tensors;  // in the order of their bytes
  std::map<std::string, std::string> metadata;

  uint64_t header_bytes = 0;  // with the length before it; the first tensor begins here
};

// The longest header that is read. It is enough for tens of thousands of tensors, and bounds the
// memory for parsing a hostile header. (The format allows 100 MB.)
inline constexpr uint64_t kMostSafetensorsHeaderBytes = 8 << 20;

// Encodes the header of a file with these distinct names, dtypes, shapes and metadata, with its
// length before it. The tensors lie one after the other, from a multiple of 64 bytes on, and not
// before `least_bytes`. Ignores the other fields.
std::string EncodeSafetensorsHeader(const Safetensors& file, uint64_t least_bytes = 0);

// Reads a header of `file_bytes` in all. `json` is the header without its length.
// INVALID_ARGUMENT, with what was expected and what was found, if it breaks the format: a dtype
// that is unknown, sizes that do not fit the shape, or tensors that overlap, leave gaps or end
// beyond or before the file's end.
absl::StatusOr<Safetensors> DecodeSafetensorsHeader(absl::string_view json, uint64_t file_bytes);

}  // namespace capstan

#endif  // COMMON_MODEL_FILE_SAFETENSORS_H_
