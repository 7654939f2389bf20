#ifndef WORKER_ENGINE_DEVICE_NAME_H_
#define WORKER_ENGINE_DEVICE_NAME_H_

#include <algorithm>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace capstan {

// The device of a worker.
struct DeviceName {
  bool is_cuda = false;
  int number = 0;  // of the GPU
};

// Reads "cpu", "cuda" (the first GPU) or "cuda:N". INVALID_ARGUMENT for anything else.
inline absl::StatusOr<DeviceName> ParseDeviceName(absl::string_view text) {
  if (text == "cpu") return DeviceName{/*is_cuda=*/false, /*number=*/0};
  if (text == "cuda") return DeviceName{/*is_cuda=*/true, /*number=*/0};
  DeviceName name = {/*is_cuda=*/true, /*number=*/0};
  absl::string_view digits = text;
  if (absl::ConsumePrefix(&digits, "cuda:") &&
      std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit) &&
      absl::SimpleAtoi(digits, &name.number)) {
    return name;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--device: expected cpu, cuda or cuda:N with the number of a GPU, from 0; got \"", text,
      "\""));
}

}  // namespace capstan

#endif  // WORKER_ENGINE_DEVICE_NAME_H_
