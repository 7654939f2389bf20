#include "worker/dataset/dense_limit.h"

#include <limits>

#include "absl/strings/str_format.h"

namespace capstan {

absl::Status CheckDenseSize(uint64_t rows, uint64_t columns) {
  constexpr double kGib = 1 << 30;
  const double bytes = static_cast<double>(rows) * static_cast<double>(columns) * sizeof(float);
  if (bytes <= kMaxDenseBytes && columns <= std::numeric_limits<int>::max()) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrFormat(
      "%d rows of %d values take %.1f GiB as dense float32, but at most %.0f GiB are supported: "
      "use fewer samples or fewer features",
      rows, columns, bytes / kGib, kMaxDenseBytes / kGib));
}

}  // namespace capstan
