#ifndef COMMON_TENSOR_VECTOR_TARGETS_H_
#define COMMON_TENSOR_VECTOR_TARGETS_H_

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace capstan {

// Operations are compiled for several kinds of vectors. Runs `check` with each kind of this CPU,
// then leaves the choice to the operations again.
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

#endif  // COMMON_TENSOR_VECTOR_TARGETS_H_
