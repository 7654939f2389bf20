#include "common/exchange/collective.h"

#include <limits>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

const char* TextOf(CollectiveDtype dtype) {
  switch (dtype) {
    case CollectiveDtype::kFloat32:
      return "float32";
    case CollectiveDtype::kFloat64:
      return "float64";
    case CollectiveDtype::kInt64:
      return "int64";
  }
  return "of an unknown type";
}

}  // namespace

absl::Status CheckDimensions(size_t num_dims) {
  if (num_dims <= kMaxCollectiveDimensions) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("expected at most ", kMaxCollectiveDimensions, " dimensions, got ", num_dims));
}

absl::Status CheckElements(absl::Span<const uint64_t> shape, CollectiveDtype dtype) {
  RETURN_IF_ERROR(CheckDimensions(shape.size()));
  const size_t element_bytes = BytesOf(dtype);
  if (element_bytes == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected float32, float64 or int64, got type ", static_cast<int>(dtype)));
  }
  const size_t most = kMaxCollectiveBytes / element_bytes;
  if (NumElements(shape) <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("expected at most ", most, " elements, 1 MiB, got ", absl::StrJoin(shape, "x"),
                   ": larger tensors belong into tables"));
}

uint64_t NumElements(absl::Span<const uint64_t> shape) {
  // Other sizes may be so large that their product overflows.
  if (absl::c_linear_search(shape, uint64_t{0})) return 0;
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  uint64_t elements = 1;
  for (const uint64_t size : shape) {
    if (size > kMost / elements) return kMost;
    elements *= size;
  }
  return elements;
}

std::string ElementsText(absl::Span<const uint64_t> shape, CollectiveDtype dtype) {
  if (shape.empty()) return absl::StrCat("a scalar of ", TextOf(dtype));
  return absl::StrCat(absl::StrJoin(shape, "x"), " ", TextOf(dtype));
}

}  // namespace capstan
