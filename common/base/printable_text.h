#ifndef COMMON_BASE_PRINTABLE_TEXT_H_
#define COMMON_BASE_PRINTABLE_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace capstan {

// Text of somebody else's that may go to a terminal: control characters, and bytes that are not
// UTF-8, are written as "\x1b". Printing it twice changes nothing more.
std::string PrintableText(absl::string_view text);

// The same for text of several lines, whose newlines stay.
std::string PrintableLines(absl::string_view text);

}  // namespace capstan

#endif  // COMMON_BASE_PRINTABLE_TEXT_H_
