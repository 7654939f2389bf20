#ifndef COMMON_HISTORY_VALUE_RULES_H_
#define COMMON_HISTORY_VALUE_RULES_H_

#include "common/history/violation.h"

namespace capstan {

// The rules that read from test values which updates each pull saw: no update that nobody sent,
// none twice, none that BSP must hide, all that the staleness bound promises, the worker's own, and
// all that were acknowledged before; and version and min_step say exactly that.
void CheckValues(const CheckedSlice& checked, Violations& violations);

}  // namespace capstan

#endif  // COMMON_HISTORY_VALUE_RULES_H_
