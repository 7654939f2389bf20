#include "common/base/random.h"

#include <cmath>
#include <numeric>
#include <random>
#include <utility>

namespace capstan {
namespace {

constexpr int kRounds = 10;
constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;
constexpr uint32_t kWeyl1 = 0xBB67AE85;

uint32_t High(uint64_t value) { return static_cast<uint32_t>(value >> 32); }
uint32_t Low(uint64_t value) { return static_cast<uint32_t>(value); }

}  // namespace

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = uint64_t{kMultiplier0} * counter[0];
    const uint64_t product1 = uint64_t{kMultiplier1} * counter[2];
    counter = {High(product1) ^ counter[1] ^ key[0], Low(product1),
               High(product0) ^ counter[3] ^ key[1], Low(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

uint64_t SystemRandom() {
  std::random_device device;
  const uint64_t high = device();
  return (high << 32) | device();
}

Random::Random(uint64_t seed, uint64_t stream) : key_{Low(seed), High(seed)}, stream_(stream) {}

uint32_t Random::operator()() {
  if (used_ == 4) {
    words_ = Philox4x32({Low(block_), High(block_), Low(stream_), High(stream_)}, key_);
    ++block_;
    used_ = 0;
  }
  return words_[used_++];
}

uint64_t Random::Next64() {
  const uint64_t high = (*this)();
  return (high << 32) | (*this)();
}

uint64_t Random::UniformInt(uint64_t bound) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(Next64()) * bound) >> 64);
}

float Random::Normal() {
  // 1 - u lies in (0, 1], where the logarithm is finite.
  const double radius = std::sqrt(-2.0 * std::log(1.0 - UniformFloat()));
  return static_cast<float>(radius * std::cos(2.0 * M_PI * UniformFloat()));
}

bool Random::Bernoulli(double probability) {
  return static_cast<double>(Next64() >> 11) * 0x1p-53 < probability;
}

std::vector<uint32_t> RandomPermutation(uint32_t count, Random& random) {
  std::vector<uint32_t> permutation(count);
  std::iota(permutation.begin(), permutation.end(), 0);
  for (uint32_t left = count; left > 1; --left) {
    std::swap(permutation[left - 1], permutation[random.UniformInt(left)]);
  }
  return permutation;
}

}  // namespace capstan
