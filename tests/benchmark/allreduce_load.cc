#include "tests/benchmark/allreduce_load.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/tensor/host_buffer.h"
#include "tests/benchmark/step_gradient.h"

namespace capstan {

absl::Status AllreduceLoad::Check() const {
  constexpr uint64_t kMostElements = std::numeric_limits<int32_t>::max();
  if (bytes == 0 || bytes % sizeof(float) != 0 || bytes / sizeof(float) > kMostElements) {
    return absl::InvalidArgumentError(absl::StrCat("--bytes: expected 1 to ", kMostElements,
                                                   " float32, a multiple of 4, got ", bytes));
  }
  if (steps < 1) return absl::InvalidArgumentError("--steps: expected 1 or more");
  return absl::OkStatus();
}

absl::StatusOr<StepTimes> RunAllreduces(const AllreduceLoad& load, int rank,
                                        absl::FunctionRef<void()> barrier,
                                        absl::FunctionRef<void(absl::Span<float>)> allreduce) {
  HostBuffer gradient(load.bytes / sizeof(float));
  StepTimes times;
  for (int step = -load.warmup_steps; step < load.steps; ++step) {
    FillGradient(rank, gradient.span());
    barrier();
    const absl::Time begin = absl::Now();
    allreduce(gradient.span());
    const absl::Time end = absl::Now();
    if (step >= 0) times.push_back(absl::ToDoubleSeconds(end - begin));
    RETURN_IF_ERROR(CheckPattern(gradient.span(), SumOfGradients(load.num_processes)));
  }
  return times;
}

}  // namespace capstan
