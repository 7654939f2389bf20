#ifndef TESTS_BENCHMARK_STEP_GRADIENT_H_
#define TESTS_BENCHMARK_STEP_GRADIENT_H_

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace capstan {

// What worker (or rank) `worker` contributes to each step: whole numbers, so that sums and means of
// few workers are exact in whatever order they are made.
void FillGradient(int worker, absl::Span<float> gradient);

// The sum of the gradients of workers 0 ... num_workers - 1, as a multiple of the pattern that
// CheckPattern expects.
double SumOfGradients(int num_workers);

// INTERNAL with the first difference, unless `values` are `factor` times the pattern.
absl::Status CheckPattern(absl::Span<const float> values, double factor);

}  // namespace capstan

#endif  // TESTS_BENCHMARK_STEP_GRADIENT_H_
