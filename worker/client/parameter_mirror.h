#ifndef WORKER_CLIENT_PARAMETER_MIRROR_H_
#define WORKER_CLIENT_PARAMETER_MIRROR_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/codec/codec.h"
#include "common/exchange/payload.h"
#include "common/tensor/host_buffer.h"
#include "common/tensor/slicing.h"
#include "worker/client/gradient_encoder.h"

namespace capstan {

// A device with a copy of a ParameterStore's values in its own memory. Thread-safe.
class ParameterMirror {
 public:
  virtual ~ParameterMirror() = default;

  // Comes before all other calls, and only if a codec of the plan is lossy. Returns the encoder of
  // the device: gradients then stay on the device, and only their bytes come to the host. The
  // mirror outlives the encoder. RESOURCE_EXHAUSTED if there is not enough memory.
  virtual absl::StatusOr<std::unique_ptr<GradientEncoder>> UseCodecs(const CodecPlan& plan) = 0;

  // Memory for `size` values or gradients, zero at first. The device copies to and from it
  // directly. RESOURCE_EXHAUSTED if there is not enough memory.
  virtual absl::StatusOr<HostBuffer> AllocateHost(size_t size) = 0;

  // New values of `range` of `table` have arrived in the store's memory, at `values`. They stay
  // unchanged until the layer's next gradient has been pushed.
  virtual absl::Status SliceArrived(TableId table, const SliceRange& range,
                                    const float* values) = 0;

  // Encoded values of a slice have arrived, in a table with a lossy codec of pulls. `codec` is that
  // codec's type; a topk is to be added to the values, and other types replace them. Or it is
  // kChanged. The bytes are in one piece and have been checked. They may change after the call.
  virtual absl::Status EncodedSliceArrived(SliceKey key, CodecType codec, const Payload& bytes) = 0;

  // All awaited slices of the layer have arrived. Runs before WaitForLayer returns.
  virtual absl::Status LayerArrived(int layer) = 0;
};

}  // namespace capstan

#endif  // WORKER_CLIENT_PARAMETER_MIRROR_H_
