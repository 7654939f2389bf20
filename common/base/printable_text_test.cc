#include "common/base/printable_text.h"

#include <gtest/gtest.h>

namespace capstan {
namespace {

TEST(PrintableTextTest, ShortTextEndsAfter100Bytes) {
  EXPECT_EQ(ShortPrintableText(std::string(100, 'a')), std::string(100, 'a'));
  EXPECT_EQ(ShortPrintableText(std::string(1000, 'a')), std::string(100, 'a') + "...");
  EXPECT_EQ(ShortPrintableText("\x1b"), "\\x1b");
}

TEST(PrintableTextTest, TextIsLeftAsItIs) {
  for (const char* text : {"", "no such file: a.csv", "Grüße, 漢字, 🙂", "a\\x1b"}) {
    EXPECT_EQ(PrintableText(text), text);
  }
}

TEST(PrintableTextTest, ControlCharactersAreWrittenOut) {
  EXPECT_EQ(PrintableText("\x1b[2J\r\n\t\x7f"), R"(\x1b[2J\x0d\x0a\x09\x7f)");
  EXPECT_EQ(PrintableText(absl::string_view("a\0b", 3)), R"(a\x00b)");
  EXPECT_EQ(PrintableText("\xc2\x9b"
                          "2J"),
            R"(\xc2\x9b2J)")
      << "the one-character form of ESC [";
}

TEST(PrintableTextTest, WhatIsNoUtf8IsWrittenOut) {
  EXPECT_EQ(PrintableText("\x9b\xff"), R"(\x9b\xff)");
  EXPECT_EQ(PrintableText("\xe6\xbc"), R"(\xe6\xbc)") << "a part of a character";
  EXPECT_EQ(PrintableText("\xc3("), R"(\xc3()");
  EXPECT_EQ(PrintableText("\xe0\x80\x80"), R"(\xe0\x80\x80)") << "a longer form of another";
  EXPECT_EQ(PrintableText("\xf0\x8f\xbf\xbf"), R"(\xf0\x8f\xbf\xbf)") << "the same";
  EXPECT_EQ(PrintableText("\xed\xa0\x80"), R"(\xed\xa0\x80)") << "half of a pair";
  EXPECT_EQ(PrintableText("\xf4\x90\x80\x80"), R"(\xf4\x90\x80\x80)") << "beyond U+10FFFF";
  EXPECT_EQ(PrintableText("\xed\x9f\xbf\xf4\x8f\xbf\xbf"), "\xed\x9f\xbf\xf4\x8f\xbf\xbf");
}

TEST(CutTextTest, LeavesOutTheMiddleOfALongText) {
  EXPECT_EQ(CutText(std::string(kMostTextBytes, 'a')), std::string(kMostTextBytes, 'a'));
  const std::string cut = CutText("ValueError: " + std::string(6 << 20, 'a') + " at the end");
  EXPECT_LE(cut.size(), kMostTextBytes);
  EXPECT_EQ(cut.substr(0, 13), "ValueError: a");
  EXPECT_EQ(cut.substr(cut.size() - 12), "a at the end");
  EXPECT_NE(cut.find(" ... (6289529 bytes left out) ... "), std::string::npos) << cut;
  EXPECT_EQ(CutText(cut), cut);
}

TEST(CutTextTest, CutsBetweenCharacters) {
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += "漢";
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(PrintableText(CutText(text)), CutText(text));
    text = "a" + text + "a";
  }
}

TEST(PrintableTextTest, LinesKeepTheirNewlines) {
  EXPECT_EQ(PrintableLines("a\n\x1b\n\nb\n"), "a\n\\x1b\n\nb\n");
}

}  // namespace
}  // namespace capstan
