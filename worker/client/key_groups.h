#ifndef WORKER_CLIENT_KEY_GROUPS_H_
#define WORKER_CLIENT_KEY_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "worker/client/spread_sort.h"

namespace capstan {

// The distinct keys of a batch, grouped by shard, for the exchange of a sparse table's rows. An
// input is a key of the batch at its position there; a key may have several inputs. Keeps its
// memory from batch to batch. Not thread-safe.
class KeyGroups {
 public:
  static constexpr size_t kMostKeys = size_t{1} << 31;

  // Groups a batch of keys of any order and value. `shard_count` is positive. INVALID_ARGUMENT:
  // there are more than kMostKeys; then the last batch stays.
  absl::Status Group(absl::Span<const uint64_t> batch, uint32_t shard_count);

  // The distinct keys of the batch: all keys of the first shard, ascending, then of the next one.
  absl::Span<const uint64_t> keys() const { return keys_; }
  // The index in keys() of the shard's first key. The number of keys() for the shard after the
  // last.
  size_t BeginOf(ShardId shard) const { return key_begins_.at(shard.value()); }
  absl::Span<const uint64_t> KeysOf(ShardId shard) const {
    const size_t begin = BeginOf(shard);
    return keys().subspan(begin, key_begins_.at(shard.value() + size_t{1}) - begin);
  }
  // The index in keys() of each input.
  absl::Span<const uint32_t> key_of_input() const { return key_of_input_; }

  // Gives each input the row of its key. `rows` has `dim` values for each of keys(), `out` has them
  // for each input. `dim` is 1 or more, also below.
  void ExpandRows(absl::Span<const float> rows, size_t dim, absl::Span<float> out) const;
  // Gives each key of a shard the sum of its inputs' gradients, added in the order of the inputs.
  // `gradients` has `dim` values for each input, `sums` has them for each of KeysOf(shard).
  void SumGradients(ShardId shard, absl::Span<const float> gradients, size_t dim,
                    absl::Span<float> sums) const;

 private:
  // An input as one number, so that inputs are sorted fast: the place of its key in the upper half,
  // the input in the lower half.
  using PlacedInput = uint64_t;
  static uint32_t InputOf(PlacedInput placed) { return static_cast<uint32_t>(placed); }

  // The place of a key is the upper bits of its distance to the batch's smallest key. A part has
  // the inputs of one shard whose places have the same upper bits.
  struct Places {
    uint64_t smallest_key;
    uint64_t last;     // place of the largest key; below 2^32
    int missing_bits;  // the lower bits of the distance; at most 32
    int part_bits;     // a shard has 2 to this power parts
    int part_shift;    // the lower bits of a place, which do not tell the part

    uint64_t Of(uint64_t key) const { return (key - smallest_key) >> missing_bits; }
  };
  static Places PlacesOf(absl::Span<const uint64_t> batch, uint32_t shard_count);

  // Puts all inputs into `inputs_`, by shard and part. Sets `part_begins_` to the begin of each
  // part, and to the end of the last one.
  void PartInputs(absl::Span<const uint64_t> batch, const Places& places, uint32_t shard_count);
  // Adds the distinct keys of a part to `keys_`, which has `key_count`. Returns the new number.
  size_t AddPart(absl::Span<const uint64_t> batch, const Places& places, size_t part,
                 size_t key_count);
  // The same for inputs whose places ascend. False: keys with the same place do not.
  bool AddSorted(absl::Span<const uint64_t> batch, absl::Span<const PlacedInput> inputs,
                 size_t* key_count);
  // Sorts the inputs of each place by the missing bits, which replace the place.
  void SortWithinPlaces(absl::Span<const uint64_t> batch, const Places& places,
                        absl::Span<PlacedInput> inputs);

  SpreadSort sort_;
  std::vector<uint32_t> part_of_input_;
  std::vector<uint32_t> ranks_;  // of inputs within their parts
  int part_bits_ = 0;            // of the batch's Places
  std::vector<uint32_t> part_begins_;
  std::vector<PlacedInput> inputs_;  // by shard, then by key, then by input

  std::vector<uint64_t> keys_;
  std::vector<size_t> key_begins_ = {0};
  std::vector<uint32_t> key_of_input_;
};

}  // namespace capstan

#endif  // WORKER_CLIENT_KEY_GROUPS_H_
