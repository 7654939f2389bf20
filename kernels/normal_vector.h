#ifndef KERNELS_NORMAL_VECTOR_H_
#define KERNELS_NORMAL_VECTOR_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/random.h"

namespace capstan {

// Input for a test: `size` standard normal numbers, the next ones of `random`.
inline std::vector<float> NormalVector(int64_t size, Random& random) {
  std::vector<float> numbers(static_cast<size_t>(size));
  for (float& number : numbers) number = random.Normal();
  return numbers;
}

}  // namespace capstan

#endif  // KERNELS_NORMAL_VECTOR_H_
