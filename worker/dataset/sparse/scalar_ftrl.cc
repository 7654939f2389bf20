#include "worker/dataset/sparse/scalar_ftrl.h"

#include <cmath>

namespace capstan {

float ScalarFtrl::LogOdds(const SparseSample& sample) const {
  float log_odds = Weight(bias_);
  for (size_t i = 0; i < sample.keys.size(); ++i) {
    const auto found = keys_.find(sample.keys[i]);
    if (found != keys_.end()) log_odds += Weight(found->second) * sample.values[i];
  }
  for (size_t i = 0; i < dense_.size(); ++i) log_odds += Weight(dense_[i]) * sample.dense[i];
  return log_odds;
}

void ScalarFtrl::Learn(const SparseSample& sample) {
  dense_.resize(sample.dense.size());
  const float error = 1 / (1 + std::exp(-LogOdds(sample))) - sample.label;
  Update(error, &bias_);
  for (size_t i = 0; i < sample.keys.size(); ++i) {
    Update(error * sample.values[i], &keys_[sample.keys[i]]);
  }
  for (size_t i = 0; i < dense_.size(); ++i) Update(error * sample.dense[i], &dense_[i]);
}

size_t ScalarFtrl::CountNonzeroKeys() const {
  size_t count = 0;
  for (const auto& [key, state] : keys_) count += Weight(state) != 0 ? 1 : 0;
  return count;
}

float ScalarFtrl::Weight(const State& state) const {
  if (std::abs(state.z) <= options_.l1) return 0;
  const float shrunk = state.z - std::copysign(options_.l1, state.z);
  return -shrunk / ((options_.beta + std::sqrt(state.n)) / options_.alpha + options_.l2);
}

void ScalarFtrl::Update(float gradient, State* state) const {
  const float n = state->n + gradient * gradient;
  const float sigma = (std::sqrt(n) - std::sqrt(state->n)) / options_.alpha;
  state->z += gradient - sigma * Weight(*state);
  state->n = n;
}

}  // namespace capstan
