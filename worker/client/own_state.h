#ifndef WORKER_CLIENT_OWN_STATE_H_
#define WORKER_CLIENT_OWN_STATE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "common/exchange/payload.h"
#include "common/tensor/slicing.h"

namespace capstan {

// What a worker's engine keeps from step to step beside the parameters, such as residuals: arrays
// of floats shaped like the tables, all zero at first. It travels into checkpoints and back, slice
// by slice. Under SSP and async a restored worker may do a step again that some slices have: they
// refuse the push as done, but the engine changes their state for it. An engine may change the
// state of a slice when it may touch the slice's gradient: not while an exchange of the layer is
// open. Calls come while one is open, on any thread.
class OwnState {
 public:
  virtual ~OwnState() = default;

  // Number of arrays: at least 1, and the same for every worker of the job.
  virtual uint32_t arrays() const = 0;

  // The slice's part of each array, one after the other. The bytes stay unchanged until the engine
  // may change the state.
  virtual Payload Save(SliceKey key) = 0;

  // Replaces the slice's state by one that Save gave in an earlier life of the job.
  virtual void Load(SliceKey key, absl::Span<const float> state) = 0;
};

}  // namespace capstan

#endif  // WORKER_CLIENT_OWN_STATE_H_
