#ifndef TESTS_SIMULATION_LOCAL_ROUNDS_H_
#define TESTS_SIMULATION_LOCAL_ROUNDS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "tests/simulation/scenario.h"
#include "worker/program/program_engine.h"

namespace capstan {

// The name of a program's state with local steps: doubles, first the process' incarnation and the
// round, which tell RoundCheck whose state it is.
inline constexpr char kRoundsState[] = "rounds";

// The rounds of a simulated program, as worker/python/capstan/_torch_local_steps.py does them: each
// fragment of the layers is pushed at its own moment, and takes its new values some local steps
// later, maybe in the next round. What was done meanwhile is kept. Guarded by the baton of the
// simulation.
class LocalRounds {
 public:
  // All outlive this object. `process` is that of the worker. `second`: the engine of its second
  // process, if it has two.
  LocalRounds(const Scenario& scenario, uint32_t process, Clock* clock, ProgramEngine* engine,
              ProgramEngine* second);

  // The first round can begin: takes the first values, and the state of a restored worker.
  absl::Status Begin(WorkerId worker);
  // Does a round, without its end.
  absl::Status Train();
  // There is no further round.
  absl::Status End() { return Put(engine_.steps().current(), State()); }

 private:
  struct Layer {
    std::vector<LocalElement> elements;
    std::vector<float> base;    // the values that were taken last
    std::vector<float> pushed;  // the local values at the last push
    bool is_open = false;       // the values after the last push were not taken yet
    int64_t due = 0;            // they are taken after so many further local steps
  };

  ProgramEngine& EngineOf(uint32_t table) {
    return program_.IsOfSecond(table) ? *second_ : engine_;
  }
  // Waits for the layer's new values, and takes them.
  absl::Status Take(uint32_t layer);
  // Pushes the fragment's layers.
  absl::Status Push(uint32_t fragment);
  void StepLocally(Step round, int64_t number);
  // The present state: what the worker needs to go on from here.
  std::string State() const;
  void SetState(absl::Span<const double> state);
  // The worker's state is this from now on, that of the round's begin.
  absl::Status Put(Step round, const std::string& state);
  // Before the first push of the round, which began with this state: a checkpoint may wait for it.
  absl::Status PutIfDue(Step round, const std::string& state);

  const Scenario& scenario_;
  const UserProgram& program_;
  Clock& clock_;
  ProgramEngine& engine_;
  ProgramEngine* const second_;
  const std::function<absl::Duration()> compute_time_;
  WorkerId worker_;
  Incarnation incarnation_;
  std::vector<Layer> layers_;  // by table
};

}  // namespace capstan

#endif  // TESTS_SIMULATION_LOCAL_ROUNDS_H_
