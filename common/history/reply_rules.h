#ifndef COMMON_HISTORY_REPLY_RULES_H_
#define COMMON_HISTORY_REPLY_RULES_H_

#include "common/history/violation.h"

namespace capstan {

// The rules that need no test values: what each reply's version and min_step may be, given who had
// pushed what by then; that neither goes back for a worker; that a newer incarnation ends the
// older's right to answers; and that every exchange of a live worker is answered.
void CheckReplies(const CheckedSlice& checked, Violations& violations);

}  // namespace capstan

#endif  // COMMON_HISTORY_REPLY_RULES_H_
