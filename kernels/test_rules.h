#ifndef KERNELS_TEST_RULES_H_
#define KERNELS_TEST_RULES_H_

#include <gtest/gtest.h>

#include <string>

#include "kernels/optimizers.h"

namespace capstan {

using AllRules =
    testing::Types<SgdRule, MomentumRule, NesterovRule, AdagradRule, AdamRule, AdamWRule>;

// Names the rules in the names of tests.
struct RuleNames {
  template <typename Rule>
  static std::string GetName(int /*index*/) {
    return Rule::kName;
  }
};

inline void SetConstants(SgdRule& rule) { rule = {/*learning_rate=*/0.1f, /*weight_decay=*/0.3f}; }
inline void SetConstants(MomentumRule& rule) {
  rule = {/*learning_rate=*/0.1f, /*momentum=*/0.8f, /*weight_decay=*/0.3f};
}
inline void SetConstants(NesterovRule& rule) {
  rule = {/*learning_rate=*/0.1f, /*momentum=*/0.8f, /*weight_decay=*/0.3f};
}
inline void SetConstants(AdagradRule& rule) {
  rule = {/*learning_rate=*/0.1f, /*epsilon=*/0.2f, /*weight_decay=*/0.3f};
}
template <typename Rule>  // Adam or AdamW; their last constant is the weight decay
void SetConstants(Rule& rule) {
  rule = {/*step=*/0.5f,         /*root_scale=*/1.6f,
          /*keep_first=*/0.8f,   /*add_first=*/0.2f,
          /*keep_second=*/0.95f, /*add_second=*/0.05f,
          /*epsilon=*/0.2f,      0.3f};
}

// A rule with some constants.
template <typename Rule>
Rule TestRule() {
  Rule rule;
  SetConstants(rule);
  return rule;
}

}  // namespace capstan

#endif  // KERNELS_TEST_RULES_H_
