#ifndef COMMON_BASE_PRINTABLE_TEXT_H_
#define COMMON_BASE_PRINTABLE_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace capstan {

// Makes untrusted text fit for a terminal: control characters, and bytes outside UTF-8, become text
// such as "\x1b". A second time changes nothing.
std::string PrintableText(absl::string_view text);

// The same, cut after 100 bytes of `text`: for names in errors.
std::string ShortPrintableText(absl::string_view text);

// The same for several lines of text: newlines stay.
std::string PrintableLines(absl::string_view text);

}  // namespace capstan

#endif  // COMMON_BASE_PRINTABLE_TEXT_H_
