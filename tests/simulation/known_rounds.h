#ifndef TESTS_SIMULATION_KNOWN_ROUNDS_H_
#define TESTS_SIMULATION_KNOWN_ROUNDS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "common/base/ids.h"
#include "common/tensor/slicing.h"
#include "tests/simulation/scenario.h"

namespace capstan {

// What a worker with local steps has of a slice, by a plain loop over its local steps. It begins
// with the first values that it gets. Not thread-safe.
class KnownSlice {
 public:
  // The values that the worker got for the slice at this step; null: none. They stay.
  using ValuesOf = std::function<const std::vector<float>*(Step step)>;

  // Begins with `first`. The scenario outlives this object.
  KnownSlice(const Scenario& scenario, WorkerId worker, SliceKey slice, Step first,
             ValuesOf values_of);
  // The same, with what another process had of the slice when it began a round.
  KnownSlice(const KnownSlice& before, Step first, ValuesOf values_of);

  // Does the local steps up to the push of this round, and pushes. Returns the gradient; none: the
  // worker has not got the values which that needs. Rounds come in order.
  std::optional<std::vector<float>> Push(Step round);
  // Pushes in all rounds before this one, and does their local steps. False: as Push.
  bool BeginRound(Step round);

 private:
  // Until the local step of this number in the round is done.
  bool Advance(Step round, int64_t number);
  // Takes the values that were open.
  bool Take();
  // The local step of the round after which the slice is pushed.
  int64_t MomentOf(Step round) const;

  const Scenario* scenario_;
  WorkerId worker_;
  SliceKey slice_;
  ValuesOf values_of_;
  size_t begin_ = 0;                    // of the slice in its table
  std::vector<LocalElement> elements_;  // empty: the first values are not taken yet
  std::vector<float> pushed_;
  std::optional<Step> open_;  // the values of this step come next, and are not taken yet
  int64_t due_ = 0;           // after so many further local steps
  Step round_;
  int64_t number_ = 0;  // local steps done in the round
};

// The final parameters of a BSP job with local steps that has lost no worker, by table: SGD,
// momentum or Nesterov, applied in float32 to the mean of what the workers of each round push.
std::vector<std::vector<float>> KnownRoundsEnd(const Scenario& scenario);

}  // namespace capstan

#endif  // TESTS_SIMULATION_KNOWN_ROUNDS_H_
