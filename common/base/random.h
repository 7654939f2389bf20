#ifndef COMMON_BASE_RANDOM_H_
#define COMMON_BASE_RANDOM_H_

#include <array>
#include <cstdint>
#include <vector>

namespace capstan {

// Philox4x32-10, a counter-based generator: four random words for each (counter, key), with no
// state. Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC'11.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// Uniform in [0, 1), from the upper 24 bits of `word`.
inline float UnitFloat(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

// A word from the system's source of randomness: different in every process.
uint64_t SystemRandom();

// A seeded stream of random numbers: the same (seed, stream) gives the same numbers everywhere. Not
// thread-safe. Satisfies UniformRandomBitGenerator.
class Random {
 public:
  using result_type = uint32_t;

  explicit Random(uint64_t seed, uint64_t stream = 0);

  static constexpr uint32_t min() { return 0; }
  static constexpr uint32_t max() { return UINT32_MAX; }
  uint32_t operator()();

  uint64_t Next64();
  // Uniform in [0, 1).
  float UniformFloat() { return UnitFloat((*this)()); }
  // Uniform in [0, bound), `bound` > 0. Bias is below bound / 2^64.
  uint64_t UniformInt(uint64_t bound);
  // Standard normal, by Box and Muller.
  float Normal();
  // True with the given probability.
  bool Bernoulli(double probability);

 private:
  std::array<uint32_t, 2> key_;
  uint64_t stream_;
  uint64_t block_ = 0;
  std::array<uint32_t, 4> words_ = {};
  int used_ = 4;
};

// 0 ... `count` - 1 in random order, each order equally likely (Fisher and Yates).
std::vector<uint32_t> RandomPermutation(uint32_t count, Random& random);

}  // namespace capstan

#endif  // COMMON_BASE_RANDOM_H_
