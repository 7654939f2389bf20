#ifndef COMMON_HISTORY_UPDATE_SCALE_RULES_H_
#define COMMON_HISTORY_UPDATE_SCALE_RULES_H_

#include "common/history/violation.h"

namespace capstan {

// What pushes outside BSP had their learning rate divided by, against what the header says, the
// live workers, and the versions that were seen before and after.
void CheckUpdateScale(const CheckedSlice& checked, Violations& violations);

}  // namespace capstan

#endif  // COMMON_HISTORY_UPDATE_SCALE_RULES_H_
