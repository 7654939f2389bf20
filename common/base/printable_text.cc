#include "common/base/printable_text.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace capstan {
namespace {

// Length in bytes of a UTF-8 character with this first byte; 0 if there is none.
size_t LengthOfCharacter(uint8_t first) {
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  if (first < 0xe0) return 2;
  return first < 0xf0 ? 3 : 4;
}

// Length in bytes of the first character of `text`; 0 if it is not printable.
size_t PrintableBytes(absl::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const size_t length = LengthOfCharacter(byte(0));
  if (length == 0 || length > text.size()) return 0;
  if (length == 1) return byte(0) < 0x20 || byte(0) == 0x7f ? 0 : 1;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Longer forms of shorter characters, halves of pairs (U+D800 to U+DFFF), and beyond U+10FFFF.
  const bool is_too_long =
      (byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xf0 && byte(1) < 0x90);
  const bool is_none = (byte(0) == 0xed && byte(1) >= 0xa0) || (byte(0) == 0xf4 && byte(1) >= 0x90);
  if (is_too_long || is_none) return 0;
  // The control characters from U+0080 to U+009F.
  return byte(0) == 0xc2 && byte(1) < 0xa0 ? 0 : length;
}

}  // namespace

std::string PrintableText(absl::string_view text) {
  std::string printable;
  while (!text.empty()) {
    const size_t length = PrintableBytes(text);
    if (length > 0) {
      absl::StrAppend(&printable, text.substr(0, length));
    } else {
      absl::StrAppend(&printable, "\\x", absl::Hex(static_cast<uint8_t>(text[0]), absl::kZeroPad2));
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return printable;
}

std::string ShortPrintableText(absl::string_view text) {
  constexpr size_t kMostBytes = 100;
  if (text.size() <= kMostBytes) return PrintableText(text);
  return absl::StrCat(PrintableText(text.substr(0, kMostBytes)), "...");
}

std::string CutText(absl::string_view text) {
  if (text.size() <= kMostTextBytes) return std::string(text);
  // 50 bytes are enough for what is between the two ends.
  constexpr size_t kEndBytes = (kMostTextBytes - 50) / 2;
  const auto is_inside_character = [text](size_t i) {
    return (static_cast<uint8_t>(text[i]) & 0xc0) == 0x80;
  };
  size_t begin = kEndBytes, end = text.size() - kEndBytes;
  for (int i = 0; i < 3 && is_inside_character(begin); ++i) --begin;
  for (int i = 0; i < 3 && is_inside_character(end); ++i) ++end;
  return absl::StrCat(text.substr(0, begin), " ... (", end - begin, " bytes left out) ... ",
                      text.substr(end));
}

std::string PrintableLines(absl::string_view text) {
  return absl::StrJoin(
      absl::StrSplit(text, '\n'), "\n",
      [](std::string* lines, absl::string_view line) { lines->append(PrintableText(line)); });
}

}  // namespace capstan
