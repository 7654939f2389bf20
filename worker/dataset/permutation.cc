#include "worker/dataset/permutation.h"

#include <numeric>
#include <utility>

namespace capstan {

std::vector<uint32_t> RandomPermutation(uint32_t count, Random& random) {
  std::vector<uint32_t> permutation(count);
  std::iota(permutation.begin(), permutation.end(), 0);
  for (uint32_t left = count; left > 1; --left) {
    std::swap(permutation[left - 1], permutation[random.UniformInt(left)]);
  }
  return permutation;
}

}  // namespace capstan
