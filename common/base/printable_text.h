#ifndef COMMON_BASE_PRINTABLE_TEXT_H_
#define COMMON_BASE_PRINTABLE_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace capstan {

// Makes untrusted text fit for a terminal: control characters, and bytes outside UTF-8, become text
// such as "\x1b". A second time changes nothing.
std::string PrintableText(absl::string_view text);

// The same, cut after 100 bytes of `text`: for names in errors.
std::string ShortPrintableText(absl::string_view text);

// The longest text that travels between processes for people to read, in bytes. gRPC carries the
// text of a status in a call's trailer, of at most 8 KiB, where a character may take three bytes.
inline constexpr size_t kMostTextBytes = 2000;

// The text, without the middle of a text that is longer than kMostTextBytes. Each text that travels
// is cut by who sends it, and by who receives it. A second time changes nothing.
std::string CutText(absl::string_view text);

// The same as PrintableText for several lines of text: newlines stay.
std::string PrintableLines(absl::string_view text);

}  // namespace capstan

#endif  // COMMON_BASE_PRINTABLE_TEXT_H_
