#include "common/optimizer/optimizer.h"

#include <glog/logging.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <variant>

#include "common/base/status_macros.h"
#include "common/job/optimizer_check.h"
#include "kernels/cpu/cpu_stream.h"

namespace capstan {
namespace {

// Applies the rules on the calling thread.
class CpuOptimizer : public Optimizer {
 public:
  explicit CpuOptimizer(const v1::OptimizerSpec& spec)
      : spec_(spec),
        state_count_(std::visit([](const auto& rule) { return rule.kStateCount; },
                                RuleOf(spec, Application()))) {}

  int state_count() const override { return state_count_; }
  bool has_momentum() const override { return HasMomentum(spec_); }

  void Apply(absl::Span<const float> gradient, const Application& application,
             absl::Span<float> values, absl::Span<const absl::Span<float>> state) const override {
    const auto apply = [&](const auto& rule) {
      constexpr int kStateCount = std::decay_t<decltype(rule)>::kStateCount;
      CHECK_EQ(gradient.size(), values.size());
      CHECK_EQ(state.size(), size_t{kStateCount});
      float* arrays[1 + kStateCount] = {values.data()};
      for (int i = 0; i < kStateCount; ++i) {
        CHECK_EQ(state[i].size(), values.size());
        arrays[1 + i] = state[i].data();
      }
      CpuStream stream;
      CHECK(ApplyRule(rule, static_cast<int64_t>(values.size()), gradient.data(), arrays, stream)
                .ok());
    };
    std::visit(apply, RuleOf(spec_, application));
  }

 private:
  const v1::OptimizerSpec spec_;
  const int state_count_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Optimizer>> MakeOptimizer(const v1::OptimizerSpec& spec) {
  RETURN_IF_ERROR(CheckDenseOptimizer(spec));
  return std::make_unique<CpuOptimizer>(spec);
}

}  // namespace capstan
