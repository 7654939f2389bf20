#include "tests/benchmark/step/allreduce_load.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/tensor/host_buffer.h"

namespace capstan {
namespace {

// Prime: values differ where neighbours were swapped, or where a slice lies in another's place.
constexpr size_t kPeriod = 7;

float Pattern(size_t element) { return static_cast<float>(1 + element % kPeriod); }

// The first kPeriod elements of the pattern, times `factor`.
std::array<float, kPeriod> OnePeriod(double factor) {
  std::array<float, kPeriod> period;
  for (size_t i = 0; i < kPeriod; ++i) period[i] = static_cast<float>(factor * Pattern(i));
  return period;
}

}  // namespace

void FillGradient(int worker, absl::Span<float> gradient) {
  const auto period = OnePeriod(worker + 1);
  for (size_t i = 0; i < gradient.size(); i += kPeriod) {
    std::copy_n(period.data(), std::min(kPeriod, gradient.size() - i), &gradient[i]);
  }
}

double SumOfGradients(int num_workers) { return num_workers * (num_workers + 1) / 2.0; }

absl::Status CheckPattern(absl::Span<const float> values, double factor) {
  const auto period = OnePeriod(factor);
  for (size_t i = 0; i < values.size(); i += kPeriod) {
    const absl::Span<const float> part = values.subspan(i, kPeriod);
    const auto [got, expected] = std::mismatch(part.begin(), part.end(), period.begin());
    if (got == part.end()) continue;
    return absl::InternalError(absl::StrCat("element ", i + (got - part.begin()),
                                            " is wrong: expected ", *expected, ", got ", *got));
  }
  return absl::OkStatus();
}

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
