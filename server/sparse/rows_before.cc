// The rows before the last push, for a copy on another server.

#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "server/sparse/sparse_rows.h"

namespace capstan {
namespace {

template <typename Number>
void AppendNumbers(const std::vector<Number>& numbers, std::string* bytes) {
  const uint64_t count = numbers.size();
  bytes->append(reinterpret_cast<const char*>(&count), sizeof(count));
  bytes->append(reinterpret_cast<const char*>(numbers.data()), count * sizeof(Number));
}

// False: there are fewer bytes.
template <typename Number>
bool TakeNumbers(absl::Span<const uint8_t>& bytes, std::vector<Number>* numbers) {
  uint64_t count = 0;
  if (bytes.size() < sizeof(count)) return false;
  std::memcpy(&count, bytes.data(), sizeof(count));
  bytes.remove_prefix(sizeof(count));
  if (count > bytes.size() / sizeof(Number)) return false;
  numbers->resize(count);
  if (count > 0) std::memcpy(numbers->data(), bytes.data(), count * sizeof(Number));
  bytes.remove_prefix(count * sizeof(Number));
  return true;
}

}  // namespace

std::string SparseRows::SaveBefore() const {
  std::vector<uint64_t> evicted;
  for (const auto& [key, values] : before_.evicted) evicted.push_back(key);
  std::sort(evicted.begin(), evicted.end());
  std::vector<float> evicted_values;
  for (const uint64_t key : evicted) {
    const std::vector<float>& values = before_.evicted.at(key);
    evicted_values.insert(evicted_values.end(), values.begin(), values.end());
  }
  // Rows that were not there have arbitrary values.
  std::vector<float> values = before_.values;
  for (size_t i = 0; i < before_.keys.size(); ++i) {
    if (before_.had_row[i] == 0) std::fill_n(values.begin() + i * dim(), dim(), 0.0f);
  }
  std::string bytes;
  AppendNumbers(before_.keys, &bytes);
  AppendNumbers(before_.had_row, &bytes);
  AppendNumbers(values, &bytes);
  AppendNumbers(evicted, &bytes);
  AppendNumbers(evicted_values, &bytes);
  return bytes;
}

absl::Status SparseRows::LoadBefore(absl::Span<const uint8_t> bytes) {
  Before before;
  std::vector<uint64_t> evicted;
  std::vector<float> values;
  const bool is_whole = TakeNumbers(bytes, &before.keys) && TakeNumbers(bytes, &before.had_row) &&
                        TakeNumbers(bytes, &before.values) && TakeNumbers(bytes, &evicted) &&
                        TakeNumbers(bytes, &values) && bytes.empty();
  if (!is_whole || before.had_row.size() != before.keys.size() ||
      before.values.size() != before.keys.size() * dim() ||
      values.size() != evicted.size() * dim()) {
    return absl::InvalidArgumentError("the rows before a step do not fit together");
  }
  for (size_t i = 0; i < evicted.size(); ++i) {
    const auto begin = values.begin() + static_cast<ptrdiff_t>(i * dim());
    before.evicted[evicted[i]].assign(begin, begin + static_cast<ptrdiff_t>(dim()));
  }
  before_ = std::move(before);
  return absl::OkStatus();
}

uint64_t SparseRows::Hash() const {
  const SparseRowsSnapshot snapshot = Snapshot();
  uint64_t hash = 0;
  const auto add = [&hash](const auto& numbers) {
    hash = XXH3_64bits_withSeed(numbers.data(), numbers.size() * sizeof(numbers[0]), hash);
  };
  add(snapshot.keys);
  add(snapshot.values);
  add(snapshot.state);
  add(snapshot.last_touch);
  add(snapshot.sketch);
  return hash;
}

}  // namespace capstan
