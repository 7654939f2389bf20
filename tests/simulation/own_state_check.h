#ifndef TESTS_SIMULATION_OWN_STATE_CHECK_H_
#define TESTS_SIMULATION_OWN_STATE_CHECK_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "common/base/ids.h"
#include "common/tensor/slicing.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/simulated_cluster.h"
#include "tests/simulation/simulated_disk.h"

namespace capstan {

// Checks the own states with which workers begin, over the lives of a job whose workers have all
// lived. The states tell which gradients are in them (ScriptedState). If all was BSP, a worker
// begins step c with each of its steps before c, once. Otherwise a state is at least as new as the
// slice of the checkpoint, and has at most the worker's next step more. Steps that were done again
// are in it again. Not thread-safe.
class OwnStateCheck {
 public:
  // The next life goes on from this checkpoint; null: it begins anew.
  void BeginLife(const Scenario& life, const SimulatedDisk::Checkpoint* restored);
  // What is wrong in the life that has ended; empty: nothing.
  std::string EndLife(const Scenario& life, const SimulationResult& result);

 private:
  struct Range {
    int least = 0;
    int most = 0;
  };

  // How often the worker's gradient of `step` may be in its state when it begins.
  Range Expected(const Scenario& life, const FirstOwnState& begin, Step step) const;
  std::string Check(const Scenario& life, const FirstOwnState& begin) const;

  int past_lives_ = 0;    // since the job began anew
  bool is_exact_ = true;  // all was BSP, and workers have pulled after each push
  bool is_known_ = true;  // the checkpoint's values tell its updates, or is_exact_
  // The first step that the checkpoint's slice lacks of the worker.
  std::map<std::pair<SliceKey, WorkerId>, Step> lacked_;
};

}  // namespace capstan

#endif  // TESTS_SIMULATION_OWN_STATE_CHECK_H_
