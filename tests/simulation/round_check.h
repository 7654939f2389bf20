#ifndef TESTS_SIMULATION_ROUND_CHECK_H_
#define TESTS_SIMULATION_ROUND_CHECK_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/tensor/slicing.h"
#include "server/coordinator/job_outcome.h"
#include "tests/simulation/known_rounds.h"
#include "tests/simulation/scenario.h"

namespace capstan {

// Checks each push of workers with local steps, over the lives of a job: it is what KnownSlice says
// from the values that the process has got, and from the state with which it began. Guarded by the
// baton of the simulation.
class RoundCheck {
 public:
  // The life outlives this object.
  void BeginLife(const Scenario& life);
  // An endpoint for one worker, which looks at what it sends and gets.
  std::unique_ptr<ParameterEndpoint> Watch(std::unique_ptr<ParameterEndpoint> inner);

  // The first push that is wrong; empty: none is.
  const std::string& wrong() const { return wrong_; }
  // The first pull of final values of this life that a push was too late for, if no worker was
  // lost: a worker has done its steps once all its pushes are answered. Empty: none was.
  const std::string& missing_push() const { return missing_push_; }
  int64_t checked_pushes() const { return checked_pushes_; }

 private:
  class Endpoint;

  // One life of a worker.
  struct Process {
    const Scenario* life = nullptr;
    WorkerId worker;
    // The process with whose state it began, and the round that this one had begun. None: with no
    // state.
    Incarnation before;
    Step before_round;
    bool has_state = false;
    std::map<std::pair<SliceKey, Step>, std::vector<float>> values;  // as it got them
  };

  Process& ProcessOf(const Sender& sender);
  void NoteState(const Sender& sender, const Payload& state);
  void NoteValues(const Sender& sender, SliceKey slice, Step step, const Payload& values);
  void CheckPush(const ExchangeRequest& request);
  // Looks at a pull that comes without a push.
  void CheckPull(SliceKey slice, Step step);
  // What the process has of the slice when it begins its first round.
  KnownSlice FirstOf(const Process& process, SliceKey slice) const;

  const Scenario* life_ = nullptr;
  std::map<Incarnation, Process> processes_;
  std::map<std::pair<Incarnation, SliceKey>, KnownSlice> slices_;
  std::map<SliceKey, int> open_pushes_;  // in this life
  std::string missing_push_;
  std::string wrong_;
  int64_t checked_pushes_ = 0;
};

// What is wrong at the good end of a BSP job with local steps that has lost no worker; empty:
// nothing. Its parameters have the bits of KnownRoundsEnd. If this life has_all rounds, the
// coordinator has heard of all local steps, unless another one has come in its place.
std::string WrongRoundsEnd(const Scenario& scenario, const JobOutcome& outcome, bool has_all);

}  // namespace capstan

#endif  // TESTS_SIMULATION_ROUND_CHECK_H_
