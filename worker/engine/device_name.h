#ifndef WORKER_ENGINE_DEVICE_NAME_H_
#define WORKER_ENGINE_DEVICE_NAME_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace capstan {

// What a worker computes on.
struct DeviceName {
  bool is_cuda = false;
  int number = 0;  // of the GPU
};

// Reads "cpu", "cuda" (the first GPU) or "cuda:N". INVALID_ARGUMENT for anything else.
absl::StatusOr<DeviceName> ParseDeviceName(absl::string_view text);

}  // namespace capstan

#endif  // WORKER_ENGINE_DEVICE_NAME_H_
