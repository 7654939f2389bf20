#ifndef KERNELS_CPU_VECTOR_TARGETS_H_
#define KERNELS_CPU_VECTOR_TARGETS_H_

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace capstan {

// Runs `check` once for each kind of vectors that this CPU has and that operations are compiled
// for, with the operations on those; then leaves the best to them again.
inline void ForEachVectorTarget(absl::FunctionRef<void()> check) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(testing::Message() << "vectors of " << hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    check();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace capstan

#endif  // KERNELS_CPU_VECTOR_TARGETS_H_
