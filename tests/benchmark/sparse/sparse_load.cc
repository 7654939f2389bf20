#include "tests/benchmark/sparse/sparse_load.h"

#include <time.h>

#include <cmath>

namespace capstan {
namespace {

std::vector<uint64_t> Drawn(uint64_t count, absl::FunctionRef<uint64_t()> draw_id) {
  std::vector<uint64_t> keys(count);
  for (uint64_t& key : keys) key = KeyOfId(draw_id());
  return keys;
}

double ThreadSeconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

uint64_t KeyOfId(uint64_t id) {
  const auto words = Philox4x32({static_cast<uint32_t>(id), static_cast<uint32_t>(id >> 32), 0, 0},
                                {/*seed=*/1, 0});
  return (uint64_t{words[0]} << 32) | words[1];
}

std::vector<uint64_t> AllKeys(uint64_t num_keys) {
  uint64_t id = 0;
  return Drawn(num_keys, [&id] { return id++; });
}

std::vector<uint64_t> UniformKeys(uint64_t count, uint64_t num_keys, Random& random) {
  return Drawn(count, [&] { return random.UniformInt(num_keys); });
}

std::vector<uint64_t> ZipfKeys(uint64_t count, uint64_t num_keys, Random& random) {
  // With exponent 1, the logarithm of the rank is uniform.
  const double range = std::log(static_cast<double>(num_keys));
  return Drawn(count,
               [&] { return static_cast<uint64_t>(std::exp(range * random.UniformFloat())) - 1; });
}

double CpuSeconds(absl::FunctionRef<void()> work) {
  const double begin = ThreadSeconds();
  work();
  return ThreadSeconds() - begin;
}

}  // namespace capstan
