#ifndef COMMON_BASE_NEAREST_NAME_H_
#define COMMON_BASE_NEAREST_NAME_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace capstan {

// " (did you mean PREFIXname?)" with the one of `names` that is most like the unknown name `word`,
// or "" if none is like it.
std::string DidYouMean(absl::string_view word, const std::vector<std::string>& names,
                       absl::string_view prefix = "");

}  // namespace capstan

#endif  // COMMON_BASE_NEAREST_NAME_H_
