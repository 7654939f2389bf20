#include "server/sparse/sparse_rows.h"

#include <glog/logging.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "server/sparse/initial_row.h"
#include "server/sparse/prefetch_row.h"

namespace capstan {
namespace {

// A part of a batch: its rows are looked up together.
constexpr size_t kPart = RowOrder::kMostKeys;
// More than a call inserts, so that idle rows do not pile up.
constexpr size_t kEvictionsPerCall = 64;
constexpr size_t kEvictionsPerKey = 4;

absl::Status CheckSize(absl::string_view part, size_t expected, size_t got) {
  if (got == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("snapshot of sparse rows: expected ", expected, " ", part, ", got ", got));
}

absl::Status Check(const SparseRows::Options& options, const RowOptimizer& optimizer) {
  const auto refused = [](absl::string_view expected, auto got) {
    return absl::InvalidArgumentError(absl::StrCat(expected, ", got ", got));
  };
  if (!(options.initial_stddev >= 0) || std::isinf(options.initial_stddev)) {
    return refused("initial_stddev: expected 0 or a number above it", options.initial_stddev);
  }
  if (optimizer.type() == RowOptimizer::Type::kFtrl && options.initial_stddev != 0) {
    return refused("initial_stddev: expected 0, with which FTRL begins", options.initial_stddev);
  }
  if (options.admitting_push < 1 || options.admitting_push > TouchSketch::kMaxCount) {
    return refused("admitting_push: expected 1 to 255", options.admitting_push);
  }
  if (options.sketch_width < 1) return refused("sketch_width: expected 1 or more", 0);
  if (options.max_idle_steps.value_or(1) < 1) {
    return refused("max_idle_steps: expected 1 or more", *options.max_idle_steps);
  }
  if (options.max_rows.value_or(1) < 1) return refused("max_rows: expected 1 or more", 0);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SparseRows>> SparseRows::Create(const Options& options,
                                                               const RowOptimizer* optimizer) {
  RETURN_IF_ERROR(capstan::Check(options, *optimizer));
  return std::unique_ptr<SparseRows>(new SparseRows(options, optimizer));
}

SparseRows::SparseRows(const Options& options, const RowOptimizer* optimizer)
    : options_(options), optimizer_(*optimizer), table_(RowFloats() + (KeepsAges() ? 1 : 0)) {
  if (options.admitting_push > 1) sketch_.emplace(options.sketch_width);
}

SparseRows::~SparseRows() {
  for (const std::weak_ptr<RowsCut>& last : {cut_, copy_cut_}) {
    if (const std::shared_ptr<RowsCut> cut = last.lock()) cut->End();
  }
}

size_t SparseRows::bytes() const {
  const size_t row_bytes = dim() * sizeof(float);
  const size_t before = before_.keys.size() * (sizeof(uint64_t) + 1 + row_bytes) +
                        before_.evicted.size() * (sizeof(uint64_t) + row_bytes);
  return table_.bytes() + ages_.bytes() + (sketch_ ? sketch_->counters().size() : 0) + before;
}

uint32_t SparseRows::LastTouch(const float* row) const {
  uint32_t step;
  std::memcpy(&step, row + RowFloats(), sizeof(step));
  return step;
}

void SparseRows::SetLastTouch(float* row, uint32_t step) const {
  if (KeepsAges()) std::memcpy(row + RowFloats(), &step, sizeof(step));
}

void SparseRows::Touch(float* row, uint32_t step) const {
  if (KeepsAges()) SetLastTouch(row, std::max(LastTouch(row), step));
}

uint32_t SparseRows::Begin(Step step) {
  const auto stored = static_cast<uint32_t>(std::min<int64_t>(step.value(), UINT32_MAX));
  last_step_ = std::max(last_step_, stored);
  return stored;
}

void SparseRows::Pull(absl::Span<const uint64_t> keys, Step step, absl::Span<float> values) {
  CHECK_EQ(values.size(), keys.size() * dim());
  const uint32_t touch = Begin(step);
  for (size_t begin = 0; begin < keys.size(); begin += kPart) {
    const absl::Span<const uint64_t> part = keys.subspan(begin, kPart);
    PullPart(part, touch, values.subspan(begin * dim(), part.size() * dim()));
  }
}

void SparseRows::PullPart(absl::Span<const uint64_t> keys, std::optional<uint32_t> touch,
                          absl::Span<float> values) const {
  const RowOrder order(keys);
  std::array<float*, kPart> rows;
  table_.Find(order.keys(), absl::MakeSpan(rows).first(keys.size()));
  if (touch.has_value() && KeepsAges()) {
    KeepForCut(order.keys(), absl::MakeConstSpan(rows).first(keys.size()));
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i + kRowsAhead < keys.size()) PrefetchRow(rows[i + kRowsAhead], dim());
    const absl::Span<float> result = values.subspan(order.IndexOf(i) * dim(), dim());
    if (rows[i] == nullptr) {
      InitialValues(order.keys()[i], result);
    } else {
      std::copy_n(rows[i], dim(), result.data());
      if (touch.has_value()) Touch(rows[i], *touch);
    }
  }
}

void SparseRows::InitialValues(uint64_t key, absl::Span<float> values) const {
  InitializeRow(options_.seed, options_.table, options_.initial_stddev, key, values);
}

void SparseRows::PullBefore(absl::Span<const uint64_t> keys, absl::Span<float> values) const {
  CHECK_EQ(values.size(), keys.size() * dim());
  for (size_t begin = 0; begin < keys.size(); begin += kPart) {
    const absl::Span<const uint64_t> part = keys.subspan(begin, kPart);
    PullPart(part, /*touch=*/std::nullopt, values.subspan(begin * dim(), part.size() * dim()));
  }
  for (size_t i = 0; i < keys.size(); ++i) FindBefore(keys[i], values.subspan(i * dim(), dim()));
}

bool SparseRows::FindBefore(uint64_t key, absl::Span<float> values) const {
  const auto found = std::lower_bound(before_.keys.begin(), before_.keys.end(), key);
  if (found != before_.keys.end() && *found == key) {
    const auto index = static_cast<size_t>(found - before_.keys.begin());
    if (before_.had_row[index] == 0) {
      InitialValues(key, values);
    } else {
      std::copy_n(&before_.values[index * dim()], dim(), values.data());
    }
    return true;
  }
  const auto evicted = before_.evicted.find(key);
  if (evicted == before_.evicted.end()) return false;
  std::copy_n(evicted->second.data(), dim(), values.data());
  return true;
}

void SparseRows::KeepRows(const RowOrder& order, absl::Span<float* const> rows, size_t begin) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i + kRowsAhead < rows.size()) PrefetchRow(rows[i + kRowsAhead], dim());
    const size_t index = begin + order.IndexOf(i);
    before_.had_row[index] = rows[i] != nullptr ? 1 : 0;
    if (rows[i] != nullptr) std::copy_n(rows[i], dim(), &before_.values[index * dim()]);
  }
}

void SparseRows::KeepEvicted(uint64_t key) {
  if (std::binary_search(before_.keys.begin(), before_.keys.end(), key)) return;
  Read(key, absl::MakeSpan(before_.evicted.try_emplace(key, dim()).first->second));
}

void SparseRows::Push(absl::Span<const uint64_t> keys, absl::Span<const float> gradients, Step step,
                      double rate_factor) {
  CHECK_EQ(gradients.size(), keys.size() * dim());
  const uint32_t touch = Begin(step);
  if (options_.keeps_before) {
    before_.keys.assign(keys.begin(), keys.end());
    before_.had_row.resize(keys.size());
    before_.values.resize(keys.size() * dim());
    before_.evicted.clear();
  }
  for (size_t begin = 0; begin < keys.size(); begin += kPart) {
    PushPart(keys, begin, gradients.data() + begin * dim(), touch, rate_factor);
  }
  if (KeepsAges()) Evict(keys.size());
}

void SparseRows::PushPart(absl::Span<const uint64_t> all_keys, size_t begin, const float* gradients,
                          uint32_t step, double rate_factor) {
  const absl::Span<const uint64_t> keys = all_keys.subspan(begin, kPart);
  const RowOrder order(keys);
  std::array<float*, kPart> row_memory;
  std::array<const float*, kPart> gradient_memory;
  const absl::Span<float*> rows = absl::MakeSpan(row_memory).first(keys.size());
  const absl::Span<const float*> ordered = absl::MakeSpan(gradient_memory).first(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) ordered[i] = gradients + order.IndexOf(i) * dim();
  table_.Find(order.keys(), rows);
  KeepForCut(order.keys(), rows);
  if (options_.keeps_before) KeepRows(order, rows, begin);
  if (std::find(rows.begin(), rows.end(), nullptr) != rows.end()) {
    AdmitKeys(order.keys(), step, rows);
  }
  optimizer_.Apply(ordered, rate_factor, rows);
  if (!KeepsAges()) return;
  for (float* row : rows) {
    if (row != nullptr) Touch(row, step);
  }
}

void SparseRows::AdmitKeys(absl::Span<const uint64_t> keys, uint32_t step,
                           absl::Span<float*> rows) {
  std::array<uint64_t, kPart> admitted;
  std::array<bool, kPart> is_dropped = {};
  size_t count = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (rows[i] != nullptr) continue;
    is_dropped[i] = sketch_ && sketch_->Touch(keys[i]) < options_.admitting_push;
    if (!is_dropped[i]) admitted[count++] = keys[i];
  }
  if (count == 0) return;
  InsertNew(absl::MakeConstSpan(admitted).first(count), step);
  table_.Find(keys, rows);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (is_dropped[i]) rows[i] = nullptr;  // the key's next gradient, in this batch, made the row
  }
}

void SparseRows::InsertNew(absl::Span<const uint64_t> keys, uint32_t step) {
  table_.Insert(keys, [&](uint64_t key, float* row) {
    InitializeRow(options_.seed, options_.table, options_.initial_stddev, key, {row, dim()});
    std::fill_n(row + dim(), optimizer_.state_floats(), 0.0f);
    SetLastTouch(row, step);
    if (KeepsAges()) ages_.Add(key, step);
  });
}

void SparseRows::Evict(size_t batch_size) {
  while (options_.max_rows && table_.size() > *options_.max_rows) {
    CHECK(EvictOldest(/*limit=*/UINT64_MAX));
  }
  if (!options_.max_idle_steps || last_step_ < *options_.max_idle_steps) return;
  const auto limit = static_cast<uint64_t>(last_step_ - *options_.max_idle_steps);
  size_t left = kEvictionsPerCall + kEvictionsPerKey * batch_size;
  while (left > 0 && EvictOldest(limit)) --left;
}

bool SparseRows::EvictOldest(uint64_t limit) {
  const auto last_touch_of = [this](uint64_t key) {
    float* row = nullptr;
    table_.Find({&key, 1}, {&row, 1});
    return LastTouch(row);
  };
  uint64_t key;
  if (!ages_.TakeOldest(limit, last_touch_of, &key)) return false;
  if (options_.keeps_before) KeepEvicted(key);
  const std::array<float*, 1> not_at_hand = {nullptr};
  KeepForCut({&key, 1}, not_at_hand);
  table_.Erase({&key, 1});
  return true;
}

bool SparseRows::Read(uint64_t key, absl::Span<float> values) const {
  float* row = nullptr;
  table_.Find({&key, 1}, {&row, 1});
  if (row != nullptr) std::copy_n(row, dim(), values.data());
  return row != nullptr;
}

SparseRowsSnapshot SparseRows::Head() const {
  SparseRowsSnapshot snapshot;
  snapshot.dim = dim();
  snapshot.state_floats = optimizer_.state_floats();
  snapshot.last_step = Step(last_step_);
  if (sketch_) snapshot.sketch = sketch_->counters();
  return snapshot;
}

std::shared_ptr<RowsCut> SparseRows::BeginCut(std::weak_ptr<RowsCut>& last) {
  if (const std::shared_ptr<RowsCut> earlier = last.lock()) earlier->End();
  auto cut = std::make_shared<RowsCut>(&table_, Head());
  last = cut;
  return cut;
}

void SparseRows::KeepForCut(absl::Span<const uint64_t> keys, absl::Span<float* const> rows) const {
  for (const std::weak_ptr<RowsCut>& last : {cut_, copy_cut_}) {
    if (const std::shared_ptr<RowsCut> cut = last.lock()) cut->Keep(keys, rows);
  }
}

size_t SparseRows::cut_bytes() const {
  size_t bytes = 0;
  for (const std::weak_ptr<RowsCut>& last : {cut_, copy_cut_}) {
    if (const std::shared_ptr<RowsCut> cut = last.lock()) bytes += cut->bytes();
  }
  return bytes;
}

SparseRowsSnapshot SparseRows::Snapshot() const {
  SparseRowsSnapshot snapshot = Head();
  snapshot.keys = table_.SortedKeys();
  const size_t state = snapshot.state_floats;
  snapshot.values.resize(snapshot.keys.size() * dim());
  snapshot.state.resize(snapshot.keys.size() * state);
  if (KeepsAges()) snapshot.last_touch.resize(snapshot.keys.size());
  std::array<float*, kPart> rows;
  for (size_t begin = 0; begin < snapshot.keys.size(); begin += kPart) {
    const auto chunk = absl::MakeConstSpan(snapshot.keys).subspan(begin, kPart);
    table_.Find(chunk, absl::MakeSpan(rows).first(chunk.size()));
    for (size_t i = 0; i < chunk.size(); ++i) {
      std::copy_n(rows[i], dim(), &snapshot.values[(begin + i) * dim()]);
      if (state > 0) std::copy_n(rows[i] + dim(), state, &snapshot.state[(begin + i) * state]);
      if (KeepsAges()) snapshot.last_touch[begin + i] = LastTouch(rows[i]);
    }
  }
  return snapshot;
}

absl::Status SparseRows::Check(const SparseRowsSnapshot& snapshot, bool needs_sketch) const {
  const size_t count = snapshot.keys.size();
  RETURN_IF_ERROR(CheckSize("values in a row", dim(), snapshot.dim));
  RETURN_IF_ERROR(
      CheckSize("floats of state in a row", optimizer_.state_floats(), snapshot.state_floats));
  RETURN_IF_ERROR(CheckSize("values", count * dim(), snapshot.values.size()));
  RETURN_IF_ERROR(
      CheckSize("floats of state", count * optimizer_.state_floats(), snapshot.state.size()));
  RETURN_IF_ERROR(CheckSize("last touches", KeepsAges() ? count : 0, snapshot.last_touch.size()));
  const bool has_sketch = sketch_ && (needs_sketch || !snapshot.sketch.empty());
  RETURN_IF_ERROR(CheckSize("counters of its sketch", has_sketch ? sketch_->counters().size() : 0,
                            snapshot.sketch.size()));
  for (size_t i = 1; i < count; ++i) {
    if (snapshot.keys[i - 1] < snapshot.keys[i]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("snapshot of sparse rows: expected ascending keys, got ", snapshot.keys[i],
                     " after ", snapshot.keys[i - 1]));
  }
  if (snapshot.last_step >= Step(0) && snapshot.last_step <= Step(UINT32_MAX)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("snapshot of sparse rows: expected a last step from 0 to 2^32 - 1, got ",
                   snapshot.last_step.value()));
}

absl::Status SparseRows::Restore(const SparseRowsSnapshot& snapshot) {
  CHECK_EQ(size(), 0u);
  return RestorePart(snapshot, /*is_last=*/true);
}

absl::Status SparseRows::Reserve(uint64_t rows) {
  const auto memory = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                      static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
  // With their hashes, and room for more.
  const uint64_t row_bytes = 2 * (sizeof(uint64_t) + table_.floats_per_row() * sizeof(float));
  if (rows > memory / row_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("expected at most ", memory / row_bytes,
                                                     " rows in the memory of this machine, got ",
                                                     rows));
  }
  if (size() == 0) table_.Reserve(rows);
  return absl::OkStatus();
}

absl::Status SparseRows::RestorePart(const SparseRowsSnapshot& snapshot, bool is_last) {
  RETURN_IF_ERROR(Check(snapshot, /*needs_sketch=*/is_last));
  std::vector<float*> rows(snapshot.keys.size());
  table_.Find(snapshot.keys, absl::MakeSpan(rows));
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] == nullptr) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "snapshot of sparse rows: expected each key once, got ", snapshot.keys[i], " again"));
  }
  last_step_ = Begin(snapshot.last_step);
  if (!snapshot.sketch.empty()) sketch_->set_counters(snapshot.sketch);
  size_t i = 0;
  table_.Insert(snapshot.keys, [&](uint64_t key, float* row) {
    const size_t state = snapshot.state_floats;
    std::copy_n(&snapshot.values[i * dim()], dim(), row);
    if (state > 0) std::copy_n(&snapshot.state[i * state], state, row + dim());
    if (KeepsAges()) {
      SetLastTouch(row, snapshot.last_touch[i]);
      ages_.Add(key, snapshot.last_touch[i]);
    }
    ++i;
  });
  return absl::OkStatus();
}

}  // namespace capstan
