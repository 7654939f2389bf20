#ifndef TESTS_SIMULATION_SIMULATED_PROCESS_H_
#define TESTS_SIMULATION_SIMULATED_PROCESS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/simulated_clock.h"

namespace capstan {

// One process of a simulation, and its clock. During a pause its timers and threads stand still. A
// message's arrival is a timer, too, so messages then wait for the end of the pause. Guarded by the
// baton of the simulation.
class SimulatedProcess : public Clock {
 public:
  // `world` outlives the process.
  explicit SimulatedProcess(SimulatedClock* world) : world_(*world) {}

  void Spawn(absl::AnyInvocable<void()> body) { world_.Spawn(std::move(body)); }
  void Pause();
  void Resume();
  // Stands still from now on. Nobody hears of it again.
  void Kill();
  // At the end of the simulation: a dead process runs once more, without any connection, until its
  // threads end.
  void Bury();

  // Not dead; it may be paused.
  bool is_alive() const { return state_ == State::kRunning || state_ == State::kPaused; }

  absl::Time Now() const override { return world_.Now(); }
  TimerId RunAt(absl::Time when, absl::AnyInvocable<void()> callback) override;
  bool Cancel(TimerId timer) override;
  bool WaitUntil(Mutex& mutex, CondVar& condition, absl::Time deadline) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

 private:
  enum class State { kRunning, kPaused, kDead, kBuried };
  struct Timer {
    absl::AnyInvocable<void()> callback;
    TimerId world_timer = 0;
  };

  bool stands_still() const { return state_ == State::kPaused || state_ == State::kDead; }
  void Fire(TimerId timer);
  void GoOn(State state);

  SimulatedClock& world_;
  State state_ = State::kRunning;
  TimerId last_timer_ = 0;
  std::map<TimerId, Timer> timers_;
  std::vector<TimerId> due_;  // during the pause
  CondVar goes_on_;
};

}  // namespace capstan

#endif  // TESTS_SIMULATION_SIMULATED_PROCESS_H_
