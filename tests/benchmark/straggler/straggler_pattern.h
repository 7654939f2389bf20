#ifndef TESTS_BENCHMARK_STRAGGLER_STRAGGLER_PATTERN_H_
#define TESTS_BENCHMARK_STRAGGLER_STRAGGLER_PATTERN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/ids.h"

namespace capstan {

// The compute time of each step of each worker. All chance comes from the seed: the same steps are
// slow, however the workers wait.
class StragglerPattern {
 public:
  enum class Kind {
    kNone,        // all workers alike
    kOneSlow,     // worker 0 is 2x slow
    kRandomSlow,  // each step is 5x slow with a probability of 5 %
    kPauses,      // worker 0 pauses before a step with a probability of 1 %
  };
  struct Options {
    Kind kind = Kind::kNone;
    absl::Duration compute = absl::Milliseconds(10);  // of an ordinary step
    absl::Duration pause = absl::Seconds(2);
    uint64_t seed = 1;
  };

  explicit StragglerPattern(const Options& options) : options_(options) {}

  absl::Duration ComputeTime(int worker, Step step) const;

 private:
  const Options options_;
};

// "none", "one_slow", "random_slow", "pauses"; and a description for people.
const char* KindName(StragglerPattern::Kind kind);
const char* KindDescription(StragglerPattern::Kind kind);
// INVALID_ARGUMENT, with all names: there is no such kind.
absl::StatusOr<StragglerPattern::Kind> KindOfName(absl::string_view name);

}  // namespace capstan

#endif  // TESTS_BENCHMARK_STRAGGLER_STRAGGLER_PATTERN_H_
