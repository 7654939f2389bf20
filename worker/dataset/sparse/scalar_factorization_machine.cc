#include "worker/dataset/sparse/scalar_factorization_machine.h"

#include <cmath>

namespace capstan {

float ScalarFactorizationMachine::LogOdds(const SparseSample& sample) {
  dense_.resize(sample.dense.size());
  sums_.fill(0);
  float log_odds = bias_.value;
  for (size_t i = 0; i < dense_.size(); ++i) log_odds += dense_[i].value * sample.dense[i];
  float squares = 0;
  for (size_t i = 0; i < sample.keys.size(); ++i) {
    const Key& key = Find(sample.keys[i]);
    log_odds += key.weight.value * sample.values[i];
    for (size_t j = 0; j < kFactorCount; ++j) {
      const float part = key.factors[j].value * sample.values[i];
      sums_[j] += part;
      squares += part * part;
    }
  }
  for (const float sum : sums_) log_odds += sum * sum / 2;
  return log_odds - squares / 2;
}

void ScalarFactorizationMachine::Learn(const SparseSample& sample) {
  const float error = 1 / (1 + std::exp(-LogOdds(sample))) - sample.label;
  Update(error, &bias_);
  for (size_t i = 0; i < dense_.size(); ++i) Update(error * sample.dense[i], &dense_[i]);
  for (size_t i = 0; i < sample.keys.size(); ++i) {
    const float value = sample.values[i];
    Key& key = Find(sample.keys[i]);
    Update(error * value, &key.weight);
    for (size_t j = 0; j < kFactorCount; ++j) {
      Update(error * value * (sums_[j] - key.factors[j].value * value), &key.factors[j]);
    }
  }
}

ScalarFactorizationMachine::Key& ScalarFactorizationMachine::Find(uint64_t key) {
  const auto [found, is_new] = keys_.try_emplace(key);
  if (is_new) {
    for (Weight& factor : found->second.factors) {
      factor.value = options_.initial * random_.Normal();
    }
  }
  return found->second;
}

void ScalarFactorizationMachine::Update(float gradient, Weight* weight) const {
  weight->squares += gradient * gradient;
  weight->value -= options_.learning_rate * gradient / std::sqrt(weight->squares);
}

}  // namespace capstan
