#include "server/slice/row_mean.h"

namespace capstan {

std::vector<uint64_t> MeanOfRows::Merge() {
  std::vector<uint64_t> keys;
  means_.clear();
  while (const std::optional<uint64_t> key = NextKey()) {
    keys.push_back(*key);
    means_.resize(means_.size() + dim_);
    float* const mean = means_.data() + means_.size() - dim_;
    for (Push& push : pushes_) {
      if (push.keys.empty() || push.keys.front() != *key) continue;
      for (size_t i = 0; i < dim_; ++i) mean[i] += push.gradient[i];
      push.keys.remove_prefix(1);
      push.gradient += dim_;
    }
    const auto count = static_cast<float>(num_workers_);
    for (size_t i = 0; i < dim_; ++i) mean[i] /= count;
  }
  return keys;
}

std::optional<uint64_t> MeanOfRows::NextKey() const {
  std::optional<uint64_t> next;
  for (const Push& push : pushes_) {
    if (!push.keys.empty() && (!next || push.keys.front() < *next)) next = push.keys.front();
  }
  return next;
}

}  // namespace capstan
