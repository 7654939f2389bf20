#ifndef WORKER_ENGINE_LOCAL_ROUNDS_H_
#define WORKER_ENGINE_LOCAL_ROUNDS_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// When a worker with local steps pushes which fragment: its place in its round. Not thread-safe.
class LocalRounds {
 public:
  // `clock` outlives this object.
  LocalRounds(const v1::LocalSteps& settings, Clock* clock) : settings_(settings), clock_(clock) {}

  // A round begins.
  void Begin();
  // A local step is done. Afterwards all fragments before pushed() are to be pushed.
  void NoteStep();

  int64_t total() const { return total_; }             // local steps since the beginning
  int64_t local_steps() const { return local_step_; }  // of this round
  int pushed() const { return pushed_; }               // fragments of this round
  bool is_over() const { return pushed_ == static_cast<int>(settings_.fragments()); }

 private:
  // The number of fragments whose moment has come: p's is at (p + 1) / fragments of the round.
  int64_t Due() const;

  const v1::LocalSteps settings_;
  Clock* const clock_;
  int64_t total_ = 0;
  int64_t local_step_ = 0;
  int pushed_ = 0;
  absl::Time began_;
};

// The first layer of each fragment, and the number of layers: a fragment has neighbours, and about
// as many elements as another one. `elements` are those of each layer; there are at least as many
// layers as fragments.
std::vector<int> SplitIntoFragments(absl::Span<const uint64_t> elements, int fragments);

}  // namespace capstan

#endif  // WORKER_ENGINE_LOCAL_ROUNDS_H_
