#include "tests/benchmark/sparse/key_load.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/codec/key_list.h"
#include "common/routing/key_shard.h"
#include "tests/benchmark/sparse/sparse_load.h"
#include "worker/client/key_groups.h"

namespace capstan {
namespace {

using Keys = absl::Span<const uint64_t>;

// The groups of a batch, as a program would make them without KeyGroups.
class SortedGroups {
 public:
  void Group(Keys batch, uint32_t shard_count) {
    inputs_.clear();
    for (uint32_t i = 0; i < batch.size(); ++i) {
      inputs_.push_back({ShardOfKey(batch[i], shard_count).value(), batch[i], i});
    }
    std::sort(inputs_.begin(), inputs_.end(), [](const Input& a, const Input& b) {
      return std::tie(a.shard, a.key) < std::tie(b.shard, b.key);
    });
    keys_.clear();
    key_of_input_.resize(batch.size());
    for (const Input& input : inputs_) {
      if (keys_.empty() || keys_.back() != input.key) keys_.push_back(input.key);
      key_of_input_[input.index] = static_cast<uint32_t>(keys_.size() - 1);
    }
  }

  Keys keys() const { return keys_; }
  absl::Span<const uint32_t> key_of_input() const { return key_of_input_; }

 private:
  struct Input {
    uint32_t shard;
    uint64_t key;
    uint32_t index;
  };

  std::vector<Input> inputs_;
  std::vector<uint64_t> keys_;
  std::vector<uint32_t> key_of_input_;
};

constexpr size_t kMostLeb128Bytes = 10;

size_t EncodeLeb128(Keys keys, uint8_t* bytes) {
  uint8_t* at = bytes;
  uint64_t last = 0;
  for (const uint64_t key : keys) {
    uint64_t gap = key - last;
    last = key;
    for (; gap >= 0x80; gap >>= 7) *at++ = static_cast<uint8_t>(gap | 0x80);
    *at++ = static_cast<uint8_t>(gap);
  }
  return static_cast<size_t>(at - bytes);
}

size_t DecodeLeb128(const uint8_t* bytes, absl::Span<uint64_t> keys) {
  const uint8_t* at = bytes;
  uint64_t last = 0;
  for (uint64_t& key : keys) {
    int shift = 0;
    for (; *at >= 0x80; shift += 7) last += uint64_t{*at++ & 0x7Fu} << shift;
    last += uint64_t{*at++} << shift;
    key = last;
  }
  return static_cast<size_t>(at - bytes);
}

class Measurement {
 public:
  explicit Measurement(const KeyLoad& load)
      : load_(load),
        shards_(load.batch),
        bytes_(MostKeyListBytes(load.batch) + load.shards * sizeof(uint64_t)),
        leb128_(load.batch * kMostLeb128Bytes),
        decoded_(load.batch),
        rows_(load.batch * load.dim, 0.01f),
        values_(load.batch * load.dim, 0.01f) {}

  absl::Status Measure(const std::string& name, const std::vector<uint64_t>& keys) {
    // The first batch touches the memory.
    RETURN_IF_ERROR(MeasureBatch(Keys(keys).first(load_.batch)));
    seconds_ = Seconds();
    distinct_ = list_bytes_ = leb128_bytes_ = 0;
    for (size_t i = 0; i < load_.batches; ++i) {
      RETURN_IF_ERROR(MeasureBatch(Keys(keys).subspan(i * load_.batch, load_.batch)));
    }
    AddFigures(name + "_");
    return absl::OkStatus();
  }

  const BenchmarkFigures& figures() const { return figures_; }

 private:
  struct Seconds {
    double shard = 0, group = 0, sort = 0, encode = 0, encode_leb128 = 0, decode = 0,
           decode_leb128 = 0, expand = 0, sum = 0;
  };

  absl::Status MeasureBatch(Keys batch) {
    seconds_.shard += CpuSeconds([&] {
      for (size_t i = 0; i < batch.size(); ++i) shards_[i] = ShardOfKey(batch[i], load_.shards);
    });
    absl::Status status;
    seconds_.group += CpuSeconds([&] { status = groups_.Group(batch, load_.shards); });
    RETURN_IF_ERROR(status);
    seconds_.sort += CpuSeconds([&] { sorted_groups_.Group(batch, load_.shards); });
    if (groups_.keys() != sorted_groups_.keys() ||
        groups_.key_of_input() != sorted_groups_.key_of_input()) {
      return absl::InternalError("the groups differ");
    }
    RETURN_IF_ERROR(MeasureLists());
    MeasureRows();
    distinct_ += groups_.keys().size();
    return absl::OkStatus();
  }

  absl::Status MeasureLists() {
    size_t size = 0, leb128_size = 0;
    seconds_.encode += CpuSeconds([&] {
      ForEachShard([&](Keys keys, size_t /*begin*/) {
        size += EncodeKeyList(keys, absl::MakeSpan(bytes_).subspan(size));
      });
    });
    seconds_.encode_leb128 += CpuSeconds([&] {
      ForEachShard([&](Keys keys, size_t /*begin*/) {
        leb128_size += EncodeLeb128(keys, leb128_.data() + leb128_size);
      });
    });
    list_bytes_ += size;
    leb128_bytes_ += leb128_size;
    size_t at = 0;
    absl::Status status;
    seconds_.decode += CpuSeconds([&] {
      ForEachShard([&](Keys keys, size_t begin) {
        const auto used = DecodeKeyList(absl::MakeConstSpan(bytes_).first(size).subspan(at),
                                        absl::MakeSpan(decoded_).subspan(begin, keys.size()));
        status.Update(used.status());
        if (used.ok()) at += *used;
      });
    });
    RETURN_IF_ERROR(status);
    RETURN_IF_ERROR(CheckDecoded());
    at = 0;
    seconds_.decode_leb128 += CpuSeconds([&] {
      ForEachShard([&](Keys keys, size_t begin) {
        at +=
            DecodeLeb128(leb128_.data() + at, absl::MakeSpan(decoded_).subspan(begin, keys.size()));
      });
    });
    return CheckDecoded();
  }

  void MeasureRows() {
    const auto rows = absl::MakeSpan(rows_).first(groups_.keys().size() * load_.dim);
    seconds_.expand +=
        CpuSeconds([&] { groups_.ExpandRows(rows, load_.dim, absl::MakeSpan(values_)); });
    seconds_.sum += CpuSeconds([&] {
      for (uint32_t i = 0; i < load_.shards; ++i) {
        const ShardId shard(i);
        groups_.SumGradients(shard, values_, load_.dim,
                             rows.subspan(groups_.BeginOf(shard) * load_.dim,
                                          groups_.KeysOf(shard).size() * load_.dim));
      }
    });
    // Sums of sums would become infinite.
    std::fill(rows_.begin(), rows_.end(), 0.01f);
  }

  template <typename Use>
  void ForEachShard(const Use& use) {
    for (uint32_t shard = 0; shard < load_.shards; ++shard) {
      use(groups_.KeysOf(ShardId(shard)), groups_.BeginOf(ShardId(shard)));
    }
  }

  absl::Status CheckDecoded() {
    if (absl::MakeConstSpan(decoded_).first(groups_.keys().size()) == groups_.keys()) {
      std::fill(decoded_.begin(), decoded_.end(), 0);
      return absl::OkStatus();
    }
    return absl::InternalError("the decoded keys differ");
  }

  void AddFigures(const std::string& name) {
    const uint64_t keys = load_.batch * load_.batches;
    AddRate(name + "shard", keys, seconds_.shard);
    AddRate(name + "group", keys, seconds_.group);
    figures_[name + "group_of_sort"] = seconds_.sort / seconds_.group;
    AddRate(name + "encode", distinct_, seconds_.encode);
    figures_[name + "encode_of_leb128"] = seconds_.encode_leb128 / seconds_.encode;
    AddRate(name + "decode", distinct_, seconds_.decode);
    figures_[name + "decode_of_leb128"] = seconds_.decode_leb128 / seconds_.decode;
    AddRate(name + "expand", keys, seconds_.expand);
    AddRate(name + "sum", keys, seconds_.sum);
    figures_[name + "distinct_ratio"] = static_cast<double>(distinct_) / keys;
    figures_[name + "bytes_per_key"] = static_cast<double>(list_bytes_) / distinct_;
    figures_[name + "bytes_of_leb128"] = static_cast<double>(list_bytes_) / leb128_bytes_;
  }

  void AddRate(const std::string& name, uint64_t keys, double seconds) {
    figures_[name + "_mkeys_per_s"] = MillionsPerSecond(keys, seconds);
  }

  const KeyLoad& load_;
  KeyGroups groups_;
  SortedGroups sorted_groups_;
  std::vector<ShardId> shards_;
  std::vector<uint8_t> bytes_;
  std::vector<uint8_t> leb128_;
  std::vector<uint64_t> decoded_;
  std::vector<float> rows_;
  std::vector<float> values_;

  Seconds seconds_;
  uint64_t distinct_ = 0;
  uint64_t list_bytes_ = 0;
  uint64_t leb128_bytes_ = 0;
  BenchmarkFigures figures_;
};

}  // namespace

absl::StatusOr<BenchmarkFigures> MeasureKeys(const KeyLoad& load) {
  Measurement measurement(load);
  Random random(/*seed=*/2);
  const size_t count = load.batch * load.batches;
  RETURN_IF_ERROR(measurement.Measure("uniform", UniformKeys(count, load.num_keys, random)));
  RETURN_IF_ERROR(measurement.Measure("zipf", ZipfKeys(count, load.num_keys, random)));
  std::vector<uint64_t> dense(count);
  for (uint64_t& key : dense) key = random.UniformInt(load.num_keys);
  RETURN_IF_ERROR(measurement.Measure("dense", dense));
  return measurement.figures();
}

}  // namespace capstan
