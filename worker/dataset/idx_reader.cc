#include "worker/dataset/idx_reader.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "worker/dataset/dataset.h"
#include "worker/dataset/gzip_file.h"

namespace capstan {
namespace {

constexpr uint32_t kImagesMagic = 0x803;  // unsigned bytes, 3 dimensions
constexpr uint32_t kLabelsMagic = 0x801;  // unsigned bytes, 1 dimension

// A file's dimensions, and its bytes after the header.
struct IdxFile {
  std::vector<uint32_t> dimensions;
  std::string bytes;
  size_t header_bytes = 0;

  absl::string_view body() const { return absl::string_view(bytes).substr(header_bytes); }
};

// Big-endian.
uint32_t ReadUint32(absl::string_view bytes, size_t offset) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(bytes[offset + i]);
  return value;
}

absl::string_view KindOf(uint32_t magic) {
  if (magic == kImagesMagic) return " (a file of images)";
  if (magic == kLabelsMagic) return " (a file of labels)";
  return " (not an IDX file of images or labels)";
}

absl::Status CheckMagic(absl::string_view bytes, uint32_t expected) {
  if (bytes.empty()) return absl::InvalidArgumentError("the file is empty");
  if (bytes.size() < 4) {
    return absl::DataLossError(
        absl::StrCat("truncated: expected a header, got ", bytes.size(), " bytes"));
  }
  const uint32_t magic = ReadUint32(bytes, 0);
  if (magic == expected) return absl::OkStatus();
  const bool may_be_swapped = magic == kImagesMagic || magic == kLabelsMagic;
  return absl::InvalidArgumentError(absl::StrFormat(
      "expected magic number 0x%08x%s, got 0x%08x%s%s", expected, KindOf(expected), magic,
      KindOf(magic), may_be_swapped ? ": are the paths of images and labels swapped?" : ""));
}

absl::Status CheckLength(absl::string_view bytes, size_t header_bytes,
                         const std::vector<uint32_t>& dimensions) {
  // The product of three 32-bit numbers has up to 96 bits.
  unsigned __int128 expected = header_bytes;
  unsigned __int128 body = 1;
  for (const uint32_t dimension : dimensions) body *= dimension;
  expected += body;
  if (bytes.size() == expected) return absl::OkStatus();
  const bool is_short = bytes.size() < expected;
  const std::string message = absl::StrFormat(
      "%sits header says %s, %.0f bytes in all, got %d", is_short ? "truncated: " : "",
      absl::StrJoin(dimensions, " x "), static_cast<double>(expected), bytes.size());
  return is_short ? absl::DataLossError(message) : absl::InvalidArgumentError(message);
}

absl::StatusOr<IdxFile> ReadIdxFile(const std::string& path, uint32_t magic) {
  IdxFile file;
  ASSIGN_OR_RETURN(file.bytes, ReadGzipFile(path));
  const std::string source = absl::StrCat("data file ", path);
  RETURN_IF_ERROR(Annotate(CheckMagic(file.bytes, magic), source));
  const size_t dimension_count = magic & 0xff;
  file.header_bytes = 4 * (1 + dimension_count);
  if (file.bytes.size() < file.header_bytes) {
    return absl::DataLossError(absl::StrCat(source, ": truncated: expected a header of ",
                                            file.header_bytes, " bytes, got ", file.bytes.size()));
  }
  for (size_t i = 1; i <= dimension_count; ++i) {
    file.dimensions.push_back(ReadUint32(file.bytes, 4 * i));
    if (file.dimensions.back() == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(source, ": dimension ", i, " of ", dimension_count, " is 0: no samples"));
    }
  }
  RETURN_IF_ERROR(Annotate(CheckLength(file.bytes, file.header_bytes, file.dimensions), source));
  return file;
}

}  // namespace

absl::StatusOr<Dataset> ReadIdx(const IdxFiles& files, int classes) {
  ASSIGN_OR_RETURN(const IdxFile images, ReadIdxFile(files.images, kImagesMagic));
  ASSIGN_OR_RETURN(const IdxFile labels, ReadIdxFile(files.labels, kLabelsMagic));
  if (images.dimensions[0] != labels.dimensions[0]) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data file ", files.images, " has ", images.dimensions[0], " images, but ", files.labels,
        " has ", labels.dimensions[0], " labels: give two files that belong together"));
  }
  const uint64_t pixels = uint64_t{images.dimensions[1]} * images.dimensions[2];
  RETURN_IF_ERROR(Annotate(CheckDenseSize(images.dimensions[0], pixels),
                           absl::StrCat("data file ", files.images)));
  Dataset data;
  data.feature_count = static_cast<int>(pixels);
  data.features.reserve(images.body().size());
  for (const char pixel : images.body()) data.features.push_back(static_cast<uint8_t>(pixel));
  data.labels.reserve(labels.body().size());
  for (const char byte : labels.body()) {
    const int32_t label = static_cast<uint8_t>(byte);
    RETURN_IF_ERROR(Annotate(
        CheckLabel(label, classes),
        absl::StrCat("data file ", files.labels, ", label ", data.labels.size(), " (from 0)")));
    data.labels.push_back(label);
    data.class_count = std::max(data.class_count, label + 1);
  }
  return data;
}

}  // namespace capstan
