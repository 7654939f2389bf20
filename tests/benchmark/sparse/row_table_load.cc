#include "tests/benchmark/sparse/row_table_load.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "server/sparse/prefetch_row.h"
#include "server/sparse/row_order.h"
#include "server/sparse/row_table.h"
#include "tests/benchmark/sparse/sparse_load.h"

namespace capstan {
namespace {

using Keys = absl::Span<const uint64_t>;

// A hash map from keys to rows in one vector, as a program would have it without this table.
class MapOfRows {
 public:
  explicit MapOfRows(size_t floats_per_row) : floats_per_row_(floats_per_row) {}

  void Insert(Keys keys) {
    for (const uint64_t key : keys) {
      if (!index_.try_emplace(key, index_.size()).second) continue;
      rows_.resize(rows_.size() + floats_per_row_);
    }
  }
  void Find(Keys keys, absl::Span<float*> rows) {
    for (size_t i = 0; i < keys.size(); ++i) {
      rows[i] = &rows_[index_.find(keys[i])->second * floats_per_row_];
    }
  }

 private:
  const size_t floats_per_row_;
  absl::flat_hash_map<uint64_t, size_t> index_;
  std::vector<float> rows_;
};

class TableOfRows {
 public:
  explicit TableOfRows(size_t floats_per_row) : table_(floats_per_row) {}

  void Insert(Keys keys) {
    table_.Insert(keys, [this](uint64_t /*key*/, float* row) {
      std::fill_n(row, table_.floats_per_row(), 0.0f);
    });
  }
  void Find(Keys keys, absl::Span<float*> rows) const { table_.Find(keys, rows); }
  const RowTable& table() const { return table_; }

 private:
  RowTable table_;
};

double RateOf(Keys keys, double seconds) { return MillionsPerSecond(keys.size(), seconds); }

class Measurement {
 public:
  Measurement(const RowTableLoad& load, const RowOptimizer& optimizer)
      : load_(load),
        optimizer_(optimizer),
        table_(load.dim + optimizer.state_floats()),
        map_(load.dim + optimizer.state_floats()),
        gradient_(load.dim, 0.01f),
        gradients_(RowOrder::kMostKeys, gradient_.data()),
        values_(RowOrder::kMostKeys * load.dim) {}

  void MeasureInsertion() {
    const std::vector<uint64_t> keys = AllKeys(load_.num_keys);
    std::vector<double> batches;
    const double seconds = Insert(table_, keys, &batches);
    AddRates("insert", RateOf(keys, seconds), RateOf(keys, Insert(map_, keys, nullptr)));
    std::sort(batches.begin(), batches.end());
    const double median = batches[batches.size() / 2];
    figures_["median_batch_ms"] = median * 1e3;
    figures_["longest_batch_beyond_median_ms"] = (batches.back() - median) * 1e3;
    const double bytes = static_cast<double>(table_.table().bytes()) / keys.size();
    const size_t payload = sizeof(uint64_t) + table_.table().floats_per_row() * sizeof(float);
    figures_["bytes_per_row"] = bytes;
    figures_["bytes_of_payload"] = bytes / payload;
  }

  void MeasureTouches(const std::string& name, const std::vector<uint64_t>& keys) {
    // In turn, so that a slower machine slows both.
    const double find = RateOf(keys, CpuSeconds([&] { FindAll(table_, keys); }));
    AddRates(name + "_find", find, RateOf(keys, CpuSeconds([&] { FindAll(map_, keys); })));
    const double update = RateOf(keys, CpuSeconds([&] { UpdateAll(table_, keys); }));
    AddRates(name + "_update", update, RateOf(keys, CpuSeconds([&] { UpdateAll(map_, keys); })));
  }

  // Some rows of both have the same bits.
  absl::Status CheckResult(const std::vector<uint64_t>& keys) {
    for (const uint64_t key : Keys(keys).subspan(0, 1000)) {
      float *row = nullptr, *expected = nullptr;
      table_.Find({&key, 1}, {&row, 1});
      map_.Find({&key, 1}, {&expected, 1});
      if (std::memcmp(row, expected, table_.table().floats_per_row() * sizeof(float)) == 0)
        continue;
      return absl::InternalError(absl::StrCat("the rows of key ", key, " differ"));
    }
    return absl::OkStatus();
  }

  const BenchmarkFigures& figures() const { return figures_; }

 private:
  template <typename Table>
  double Insert(Table& table, Keys keys, std::vector<double>* batches) {
    double sum = 0;
    for (size_t begin = 0; begin < keys.size(); begin += load_.batch) {
      const double seconds = CpuSeconds([&] { table.Insert(keys.subspan(begin, load_.batch)); });
      sum += seconds;
      if (batches != nullptr) batches->push_back(seconds);
    }
    return sum;
  }

  // Copies the values, as for a reply.
  template <typename Table>
  void FindAll(Table& table, Keys keys) {
    ForEachPart(table, keys, [this](absl::Span<float* const> rows) {
      for (size_t i = 0; i < rows.size(); ++i) {
        if (i + kRowsAhead < rows.size()) PrefetchRow(rows[i + kRowsAhead], load_.dim);
        std::copy_n(rows[i], load_.dim, values_.data() + i * load_.dim);
      }
    });
  }

  template <typename Table>
  void UpdateAll(Table& table, Keys keys) {
    ForEachPart(table, keys, [this](absl::Span<float* const> rows) {
      optimizer_.Apply(absl::MakeConstSpan(gradients_).first(rows.size()), /*rate_factor=*/1, rows);
    });
  }

  // As the server does it.
  template <typename Use>
  void ForEachPart(TableOfRows& table, Keys keys, const Use& use) {
    std::array<float*, RowOrder::kMostKeys> memory;
    for (size_t begin = 0; begin < keys.size(); begin += RowOrder::kMostKeys) {
      const RowOrder order(keys.subspan(begin, RowOrder::kMostKeys));
      const absl::Span<float*> rows = absl::MakeSpan(memory).first(order.size());
      table.Find(order.keys(), rows);
      use(rows);
    }
  }
  template <typename Use>
  void ForEachPart(MapOfRows& map, Keys keys, const Use& use) {
    std::array<float*, 64> memory;
    for (size_t begin = 0; begin < keys.size(); begin += memory.size()) {
      const Keys part = keys.subspan(begin, memory.size());
      const absl::Span<float*> rows = absl::MakeSpan(memory).first(part.size());
      map.Find(part, rows);
      use(rows);
    }
  }

  void AddRates(const std::string& name, double rate, double map_rate) {
    figures_[name + "_mkeys_per_s"] = rate;
    figures_[name + "_of_map"] = rate / map_rate;
  }

  const RowTableLoad& load_;
  const RowOptimizer& optimizer_;
  TableOfRows table_;
  MapOfRows map_;
  const std::vector<float> gradient_;
  const std::vector<const float*> gradients_;
  std::vector<float> values_;
  BenchmarkFigures figures_;
};

}  // namespace

absl::StatusOr<BenchmarkFigures> MeasureRowTable(const RowTableLoad& load) {
  ASSIGN_OR_RETURN(const auto optimizer, RowOptimizer::Create(load.optimizer, load.dim));
  Measurement measurement(load, *optimizer);
  measurement.MeasureInsertion();
  Random random(/*seed=*/2);
  const std::vector<uint64_t> uniform = UniformKeys(load.touches, load.num_keys, random);
  measurement.MeasureTouches("uniform", uniform);
  measurement.MeasureTouches("zipf", ZipfKeys(load.touches, load.num_keys, random));
  RETURN_IF_ERROR(measurement.CheckResult(uniform));
  return measurement.figures();
}

}  // namespace capstan
