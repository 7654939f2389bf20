#include "tests/benchmark/straggler/straggler_pattern.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/random.h"

namespace capstan {
namespace {

using Kind = StragglerPattern::Kind;

constexpr Kind kKinds[] = {Kind::kNone, Kind::kOneSlow, Kind::kRandomSlow, Kind::kPauses};
constexpr double kSlowSteps = 0.05;
constexpr double kPauses = 0.01;

}  // namespace

absl::Duration StragglerPattern::ComputeTime(int worker, Step step) const {
  const auto is_drawn = [&](double probability) {
    const uint64_t stream =
        static_cast<uint64_t>(worker) << 32 | static_cast<uint64_t>(step.value());
    return Random(options_.seed, stream).Bernoulli(probability);
  };
  switch (options_.kind) {
    case Kind::kNone:
      return options_.compute;
    case Kind::kOneSlow:
      return worker == 0 ? 2 * options_.compute : options_.compute;
    case Kind::kRandomSlow:
      return is_drawn(kSlowSteps) ? 5 * options_.compute : options_.compute;
    case Kind::kPauses:
      return worker == 0 && is_drawn(kPauses) ? options_.compute + options_.pause
                                              : options_.compute;
  }
  return options_.compute;
}

const char* KindName(Kind kind) {
  switch (kind) {
    case Kind::kNone:
      return "none";
    case Kind::kOneSlow:
      return "one_slow";
    case Kind::kRandomSlow:
      return "random_slow";
    case Kind::kPauses:
      return "pauses";
  }
  return "";
}

const char* KindDescription(Kind kind) {
  switch (kind) {
    case Kind::kNone:
      return "(a) no stragglers";
    case Kind::kOneSlow:
      return "(b) one worker 2x slow";
    case Kind::kRandomSlow:
      return "(c) 5 % of the steps 5x slow";
    case Kind::kPauses:
      return "(d) one worker pauses now and then";
  }
  return "";
}

absl::StatusOr<Kind> KindOfName(absl::string_view name) {
  for (const Kind kind : kKinds) {
    if (name == KindName(kind)) return kind;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("expected none, one_slow, random_slow or pauses, got \"", name, "\""));
}

}  // namespace capstan
