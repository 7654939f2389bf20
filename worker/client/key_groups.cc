#include "worker/client/key_groups.h"

#include <glog/logging.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/routing/key_shard.h"

namespace capstan {
namespace {

// Inputs are first put into parts of about this many, which are sorted in a CPU's first cache.
constexpr size_t kInputsOfPart = 1024;
// All parts are written at the same time. A CPU knows the addresses of about this many pages.
constexpr size_t kMostParts = 1024;
constexpr int kPlaceBits = 32;
// Keys and rows that lie anywhere in memory are asked for this many inputs before they are used.
constexpr size_t kKeysAhead = 32;
constexpr size_t kRowsAhead = 12;
constexpr size_t kLine = 64 / sizeof(float);

int BitsOf(uint64_t number) { return number == 0 ? 0 : 64 - __builtin_clzll(number); }

// The CPU sees by itself that a long row is read on.
void PrefetchRow(const float* row, size_t dim) {
  for (size_t i = 0; i < std::min(dim, 4 * kLine); i += kLine) __builtin_prefetch(row + i);
}

// A call of memcpy takes longer than a short row does.
void CopyRow(const float* from, size_t dim, float* to) {
  constexpr size_t kBlock = 4;
  size_t i = 0;
  for (; i + kBlock <= dim; i += kBlock) std::memcpy(to + i, from + i, kBlock * sizeof(float));
  for (; i < dim; ++i) to[i] = from[i];
}

void AddRow(const float* row, size_t dim, float* sum) {
  for (size_t i = 0; i < dim; ++i) sum[i] += row[i];
}

}  // namespace

absl::Status KeyGroups::Group(absl::Span<const uint64_t> batch, uint32_t shard_count) {
  CHECK_GT(shard_count, 0u);
  if (batch.size() > kMostKeys) {
    return absl::InvalidArgumentError(absl::StrCat("expected a batch of at most ", kMostKeys,
                                                   " keys, got ", batch.size(),
                                                   "; take smaller batches"));
  }
  const Places places = PlacesOf(batch, shard_count);
  part_bits_ = places.part_bits;
  PartInputs(batch, places, shard_count);
  key_of_input_.resize(batch.size());
  keys_.resize(batch.size());
  key_begins_.clear();
  size_t key_count = 0;
  for (size_t part = 0; part + 1 < part_begins_.size(); ++part) {
    const bool is_first_of_shard = part % (size_t{1} << places.part_bits) == 0;
    if (is_first_of_shard) key_begins_.push_back(key_count);
    key_count = AddPart(batch, places, part, key_count);
  }
  key_begins_.push_back(key_count);
  keys_.resize(key_count);
  return absl::OkStatus();
}

KeyGroups::Places KeyGroups::PlacesOf(absl::Span<const uint64_t> batch, uint32_t shard_count) {
  uint64_t smallest = UINT64_MAX, largest = 0;
  for (const uint64_t key : batch) {
    smallest = std::min(smallest, key);
    largest = std::max(largest, key);
  }
  const uint64_t range = batch.empty() ? 0 : largest - smallest;
  Places places;
  places.smallest_key = smallest;
  places.missing_bits = std::max(0, BitsOf(range) - kPlaceBits);
  places.last = range >> places.missing_bits;
  const size_t part_count = std::min(batch.size() / kInputsOfPart, kMostParts) / shard_count;
  places.part_bits = std::max(0, BitsOf(part_count) - 1);
  places.part_shift = std::max(0, BitsOf(places.last) - places.part_bits);
  return places;
}

void KeyGroups::PartInputs(absl::Span<const uint64_t> batch, const Places& shared_places,
                           uint32_t shard_count) {
  const Places places = shared_places;  // in registers
  const size_t size = batch.size();
  part_of_input_.resize(size);
  for (size_t i = 0; i < size; ++i) {
    const uint32_t shard = ShardOfKey(batch[i], shard_count).value();
    part_of_input_[i] = static_cast<uint32_t>(uint64_t{shard} << places.part_bits |
                                              places.Of(batch[i]) >> places.part_shift);
  }
  // First the rank of each input, then its address: a CPU that stores at an address which depends
  // on a count often waits before it reads the next count.
  part_begins_.assign((size_t{shard_count} << places.part_bits) + 1, 0);
  ranks_.resize(size);
  for (size_t i = 0; i < size; ++i) ranks_[i] = part_begins_[part_of_input_[i]]++;
  uint32_t begin = 0;
  for (uint32_t& count_or_begin : part_begins_) {
    const uint32_t count = count_or_begin;
    count_or_begin = begin;
    begin += count;
  }
  inputs_.resize(size);
  for (size_t i = 0; i < size; ++i) {
    inputs_[part_begins_[part_of_input_[i]] + ranks_[i]] = places.Of(batch[i]) << kPlaceBits | i;
  }
}

size_t KeyGroups::AddPart(absl::Span<const uint64_t> batch, const Places& places, size_t part,
                          size_t key_count) {
  const absl::Span<PlacedInput> inputs =
      absl::MakeSpan(inputs_.data() + part_begins_[part], inputs_.data() + part_begins_[part + 1]);
  if (inputs.empty()) return key_count;
  const size_t part_of_shard = part % (size_t{1} << places.part_bits);
  const PlacedInput smallest = part_of_shard << places.part_shift << kPlaceBits;
  const PlacedInput largest = smallest | UINT64_MAX >> (kPlaceBits - places.part_shift);
  sort_.Sort(inputs, smallest, std::min(largest, places.last << kPlaceBits | UINT32_MAX));
  // Different keys with the same place are rare, unless the keys are in clusters.
  if (!AddSorted(batch, inputs, &key_count)) {
    SortWithinPlaces(batch, places, inputs);
    CHECK(AddSorted(batch, inputs, &key_count));
  }
  return key_count;
}

bool KeyGroups::AddSorted(absl::Span<const uint64_t> batch, absl::Span<const PlacedInput> inputs,
                          size_t* key_count) {
  uint64_t* const keys = keys_.data() + *key_count;
  uint32_t* const key_of_input = key_of_input_.data();
  // Branches for new keys would be mispredicted.
  bool ascends = true;
  uint32_t index = 0;
  const auto first_index = static_cast<uint32_t>(*key_count);
  uint64_t last = batch[InputOf(inputs[0])];
  for (size_t i = 0; i < inputs.size(); ++i) {
    const PlacedInput ahead = inputs[std::min(i + kKeysAhead, inputs.size() - 1)];
    __builtin_prefetch(&batch[InputOf(ahead)]);
    __builtin_prefetch(&key_of_input[InputOf(ahead)], 1);
    const uint64_t key = batch[InputOf(inputs[i])];
    ascends &= key >= last;
    index += key != last ? 1 : 0;
    last = key;
    keys[index] = key;
    key_of_input[InputOf(inputs[i])] = first_index + index;
  }
  if (ascends) *key_count += index + size_t{1};
  return ascends;
}

void KeyGroups::SortWithinPlaces(absl::Span<const uint64_t> batch, const Places& places,
                                 absl::Span<PlacedInput> inputs) {
  const uint64_t missing_mask = (uint64_t{1} << places.missing_bits) - 1;
  const PlacedInput largest = missing_mask << kPlaceBits | UINT32_MAX;
  for (size_t begin = 0, end = 0; begin < inputs.size(); begin = end) {
    const uint64_t place = inputs[begin] >> kPlaceBits;
    while (end < inputs.size() && inputs[end] >> kPlaceBits == place) {
      const uint32_t input = InputOf(inputs[end]);
      inputs[end] = ((batch[input] - places.smallest_key) & missing_mask) << kPlaceBits | input;
      ++end;
    }
    if (end - begin > 1) sort_.Sort(inputs.subspan(begin, end - begin), /*smallest=*/0, largest);
  }
}

void KeyGroups::ExpandRows(absl::Span<const float> rows, size_t dim, absl::Span<float> out) const {
  CHECK_EQ(rows.size(), keys_.size() * dim);
  CHECK_EQ(out.size(), key_of_input_.size() * dim);
  const size_t count = key_of_input_.size();
  for (size_t i = 0; i < count; ++i) {
    const size_t ahead = key_of_input_[std::min(i + kRowsAhead, count - 1)];
    PrefetchRow(&rows[ahead * dim], dim);
    CopyRow(&rows[key_of_input_[i] * dim], dim, &out[i * dim]);
  }
}

void KeyGroups::SumGradients(ShardId shard, absl::Span<const float> gradients, size_t dim,
                             absl::Span<float> sums) const {
  CHECK_EQ(gradients.size(), key_of_input_.size() * dim);
  CHECK_EQ(sums.size(), KeysOf(shard).size() * dim);
  const size_t first_part = size_t{shard.value()} << part_bits_;
  const size_t first = part_begins_[first_part];
  const size_t last = part_begins_[first_part + (size_t{1} << part_bits_)];
  const size_t first_key = BeginOf(shard);
  // In this order all inputs of a key follow each other, each after the ones before it.
  size_t begun = 0;  // keys with a sum
  for (size_t i = first; i < last; ++i) {
    const size_t ahead = std::min(i + kRowsAhead, inputs_.size() - 1);
    PrefetchRow(&gradients[InputOf(inputs_[ahead]) * dim], dim);
    const size_t input = InputOf(inputs_[i]);
    const size_t key = key_of_input_[input] - first_key;
    if (key == begun) {
      CopyRow(&gradients[input * dim], dim, &sums[key * dim]);
      ++begun;
    } else {
      AddRow(&gradients[input * dim], dim, &sums[key * dim]);
    }
  }
}

}  // namespace capstan
