#include "server/sparse/initial_row.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "common/base/random.h"

namespace capstan {
namespace {

// Separates these draws from all other uses of the job's seed. The last byte counts blocks of 4.
constexpr uint32_t kDomain = 0x726f7700;

uint32_t Low(uint64_t word) { return static_cast<uint32_t>(word); }
uint32_t High(uint64_t word) { return static_cast<uint32_t>(word >> 32); }

// Two standard normal numbers of two random words: Box and Muller.
void Normals(uint32_t radius_word, uint32_t angle_word, double* normals) {
  // 1 - u lies in (0, 1], so the logarithm is finite.
  const double radius = std::sqrt(-2.0 * std::log(1.0 - UnitFloat(radius_word)));
  const double angle = 2.0 * M_PI * UnitFloat(angle_word);
  normals[0] = radius * std::cos(angle);
  normals[1] = radius * std::sin(angle);
}

}  // namespace

void InitializeRow(uint64_t seed, TableId table, double stddev, uint64_t key,
                   absl::Span<float> values) {
  if (stddev == 0) return std::fill(values.begin(), values.end(), 0.0f);
  for (size_t begin = 0; begin < values.size(); begin += 4) {
    const auto block = static_cast<uint32_t>(begin / 4);
    const std::array<uint32_t, 4> words =
        Philox4x32({Low(key), High(key), table.value(), kDomain + block}, {Low(seed), High(seed)});
    double normals[4];
    Normals(words[0], words[1], normals);
    Normals(words[2], words[3], normals + 2);
    for (size_t i = begin; i < std::min(begin + 4, values.size()); ++i) {
      values[i] = static_cast<float>(stddev * normals[i - begin]);
    }
  }
}

}  // namespace capstan
