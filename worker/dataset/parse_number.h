#ifndef WORKER_DATASET_PARSE_NUMBER_H_
#define WORKER_DATASET_PARSE_NUMBER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan {

// Most classes that a data set may have: a larger label is surely not a class.
inline constexpr int kMaxClasses = 1 << 20;

// `token` in quotes, for an error: non-printing characters escaped, cut when it is long.
std::string QuoteToken(absl::string_view token);

// A finite float32, blanks around it allowed; too small a number is 0. INVALID_ARGUMENT with what
// was expected and got.
absl::StatusOr<float> ParseFiniteFloat(absl::string_view token);

// A label in 0 ... `classes` - 1, also written as "3.0"; `classes` 0 means kMaxClasses.
// INVALID_ARGUMENT with what was expected and got.
absl::StatusOr<int32_t> ParseLabel(absl::string_view token, int classes);

// Checks a label that was a number from the start; the errors of ParseLabel.
absl::Status CheckLabel(int64_t label, int classes);

}  // namespace capstan

#endif  // WORKER_DATASET_PARSE_NUMBER_H_
