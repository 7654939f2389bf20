#include "kernels/optimizer_range.h"

#include <string>

#include "absl/strings/str_format.h"

namespace capstan {
namespace {

constexpr double kLargest = 1e9;

absl::Status OutOfRange(absl::string_view field, double value, absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrFormat("optimizer.%s: expected %s, got %g; correct it", field, expected, value));
}

}  // namespace

absl::Status CheckPositive(absl::string_view field, double value, double least) {
  if (value >= least && value <= kLargest) return absl::OkStatus();
  return OutOfRange(field, value, absl::StrFormat("a number above 0 (%.2g to 1e9)", least));
}

absl::Status CheckNotNegative(absl::string_view field, double value) {
  if (value >= 0 && value <= kLargest) return absl::OkStatus();
  return OutOfRange(field, value, "0 or a number above it (up to 1e9)");
}

// Compared as float32: there 1 - 1e-9 is 1.
absl::Status CheckFraction(absl::string_view field, double value) {
  if (value >= 0 && value < 1 && static_cast<float>(value) < 1.0f) return absl::OkStatus();
  return OutOfRange(field, value, "a number that is at least 0 and, as float32, below 1");
}

}  // namespace capstan
