#ifndef WORKER_DATASET_SPARSE_SPARSE_BATCH_H_
#define WORKER_DATASET_SPARSE_SPARSE_BATCH_H_

#include <glog/logging.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace capstan {

// One sample of a SparseBatch, whose memory it borrows. Key i has values[i] and fields[i].
struct SparseSample {
  float label;  // 0 or 1
  absl::Span<const uint64_t> keys;
  absl::Span<const float> values;
  absl::Span<const uint32_t> fields;  // empty when the samples have no fields
  absl::Span<const float> dense;
};

// A mini-batch of samples, in compressed rows. All samples have equally many dense features, and
// either all keys have fields or none has. Clear keeps the memory for the next batch. Not
// thread-safe.
class SparseBatch {
 public:
  size_t size() const { return labels_.size(); }
  SparseSample Sample(size_t sample) const {
    const size_t begin = row_starts_[sample];
    const size_t count = row_starts_[sample + 1] - begin;
    return {labels_[sample], keys().subspan(begin, count), values().subspan(begin, count),
            fields().subspan(has_fields() ? begin : 0, has_fields() ? count : 0),
            dense().subspan(sample * dense_count(), dense_count())};
  }

  // Of all samples together. The keys of sample i begin at row_starts()[i] and end before
  // row_starts()[i + 1].
  absl::Span<const float> labels() const { return labels_; }
  absl::Span<const size_t> row_starts() const { return row_starts_; }
  absl::Span<const uint64_t> keys() const { return keys_; }
  absl::Span<const float> values() const { return values_; }
  absl::Span<const uint32_t> fields() const { return fields_; }
  // Row-major [size(), dense_count()].
  absl::Span<const float> dense() const { return dense_; }

  size_t dense_count() const { return labels_.empty() ? 0 : dense_.size() / labels_.size(); }
  bool has_fields() const { return !fields_.empty(); }

  void Clear() {
    labels_.clear();
    row_starts_.resize(1);
    keys_.clear();
    values_.clear();
    fields_.clear();
    dense_.clear();
  }

  // Keeps the first `count` samples, at most size().
  void Truncate(size_t count) {
    CHECK_LE(count, size());
    const size_t dense = dense_count();
    labels_.resize(count);
    row_starts_.resize(count + 1);
    keys_.resize(row_starts_.back());
    values_.resize(row_starts_.back());
    if (has_fields()) fields_.resize(row_starts_.back());
    dense_.resize(count * dense);
  }

  // A sample is added part by part: its keys and its dense features, then EndSample.
  void AddKey(uint64_t key, float value) {
    keys_.push_back(key);
    values_.push_back(value);
  }
  void AddKey(uint64_t key, float value, uint32_t field) {
    AddKey(key, value);
    fields_.push_back(field);
  }
  void AddDense(float value) { dense_.push_back(value); }
  void EndSample(float label) {
    labels_.push_back(label);
    row_starts_.push_back(keys_.size());
    CHECK(fields_.empty() || fields_.size() == keys_.size());
    CHECK_EQ(dense_.size() % labels_.size(), 0u);
  }

 private:
  std::vector<float> labels_;
  std::vector<size_t> row_starts_ = {0};
  std::vector<uint64_t> keys_;
  std::vector<float> values_;
  std::vector<uint32_t> fields_;
  std::vector<float> dense_;
};

}  // namespace capstan

#endif  // WORKER_DATASET_SPARSE_SPARSE_BATCH_H_
