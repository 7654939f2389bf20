#ifndef WORKER_CLIENT_OWN_STATE_H_
#define WORKER_CLIENT_OWN_STATE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "common/exchange/payload.h"
#include "common/tensor/slicing.h"

namespace capstan {

// What a worker's engine keeps from step to step beside the parameters, such as residuals: arrays
// of floats shaped like the tables, all zero at first. It travels into checkpoints and back, slice
// by slice.
//
// Who may touch a slice's state: the engine, while no exchange of the slice's layer is open; the
// methods below, which are called on any thread while one is open.
//
// Under SSP and async a restored worker may do a step again that some slices already have. These
// drop the push, but the engine has changed their state for it.
class OwnState {
 public:
  virtual ~OwnState() = default;

  // Number of arrays: at least 1, and the same for every worker of the job.
  virtual uint32_t arrays() const = 0;

  // How each table is cut. Comes before the calls below.
  virtual void UseSlices(absl::Span<const Slicing> /*slicings*/) {}

  // The slice's part of each array, one after the other. The bytes stay unchanged until the engine
  // may change the state.
  virtual Payload Save(SliceKey key) = 0;

  // Replaces the slice's state by one that Save gave in an earlier life of the job.
  virtual void Load(SliceKey key, absl::Span<const float> state) = 0;
};

}  // namespace capstan

#endif  // WORKER_CLIENT_OWN_STATE_H_
