#ifndef WORKER_CLIENT_PARAMETER_MIRROR_H_
#define WORKER_CLIENT_PARAMETER_MIRROR_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/tensor/host_buffer.h"
#include "common/tensor/slicing.h"

namespace capstan {

// A device that keeps a copy of a ParameterStore's values in memory of its own. Thread-safe.
class ParameterMirror {
 public:
  virtual ~ParameterMirror() = default;

  // Memory for `size` values or gradients, zero at first, from and to which the device copies
  // directly. RESOURCE_EXHAUSTED when there is not that much.
  virtual absl::StatusOr<HostBuffer> AllocateHost(size_t size) = 0;

  // `values`, in the store's memory, are newer: the `range` of `table`. They stay as they are until
  // a gradient of the same layer that was computed from them has been pushed.
  virtual absl::Status SliceArrived(TableId table, const SliceRange& range,
                                    const float* values) = 0;

  // So are all that the layer has waited for. Runs before anybody who waits for the layer goes on.
  virtual absl::Status LayerArrived(int layer) = 0;
};

}  // namespace capstan

#endif  // WORKER_CLIENT_PARAMETER_MIRROR_H_
