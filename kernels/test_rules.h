#ifndef KERNELS_TEST_RULES_H_
#define KERNELS_TEST_RULES_H_

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/optimizers.h"

namespace capstan {

using AllRules =
    testing::Types<SgdRule, MomentumRule, NesterovRule, AdagradRule, AdamRule, AmsgradRule,
                   AdamWRule, AmsgradWRule, RmspropRule<false, false>, RmspropRule<false, true>,
                   RmspropRule<true, false>, RmspropRule<true, true>, LionRule>;

// Names the rules in the names of tests.
struct RuleNames {
  template <typename Rule>
  static std::string GetName(int index) {
    return absl::StrCat(index, Rule::kName);
  }
};

inline void SetConstants(SgdRule& rule) {
  rule = {/*learning_rate=*/0.1f, /*weight_decay=*/0.3f, /*sign=*/-1};
}
inline void SetConstants(MomentumRule& rule) {
  rule = {/*learning_rate=*/0.1f, /*momentum=*/0.8f, /*weight_decay=*/0.3f, /*add=*/0.7f,
          /*sign=*/-1};
}
inline void SetConstants(NesterovRule& rule) {
  rule = {/*learning_rate=*/0.1f, /*momentum=*/0.8f, /*weight_decay=*/0.3f, /*sign=*/-1};
}
inline void SetConstants(AdagradRule& rule) {
  rule = {/*learning_rate=*/0.1f, /*epsilon=*/0.2f, /*weight_decay=*/0.3f, /*sign=*/-1};
}
template <bool kIsCentered, bool kHasMomentum>
void SetConstants(RmspropRule<kIsCentered, kHasMomentum>& rule) {
  rule.learning_rate = 0.1f;
  rule.keep = 0.95f;
  rule.add = 0.05f;
  rule.momentum = 0.8f;
  rule.epsilon = 0.2f;
  rule.weight_decay = 0.3f;
  rule.sign = -1;
}
inline void SetConstants(LionRule& rule) {
  rule = {/*learning_rate=*/0.1f, /*mix=*/0.8f,    /*mix_add=*/0.2f,
          /*keep=*/0.95f,
          /*add=*/0.05f,          /*decay=*/0.03f, /*sign=*/-1};
}
template <typename Rule>  // Adam and its kin; their last constant is the weight decay
void SetConstants(Rule& rule) {
  rule = {{/*step=*/0.5f, /*root_scale=*/1.6f, /*keep_first=*/0.8f, /*add_first=*/0.2f,
           /*keep_second=*/0.95f, /*add_second=*/0.05f, /*epsilon=*/0.2f, /*sign=*/-1},
          0.3f};
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
