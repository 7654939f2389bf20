#include "worker/dataset/text_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Lines(absl::string_view text) {
  LineReader reader(text, "file x");
  std::vector<std::string> lines;
  const int64_t count = reader.CountRemaining();
  absl::string_view line;
  while (reader.Next(&line)) lines.emplace_back(line);
  EXPECT_EQ(lines.size(), count);
  EXPECT_EQ(reader.line_number(), count);
  return lines;
}

TEST(LineReaderTest, BothLineEndsAndAMissingLastOneAreAccepted) {
  EXPECT_THAT(Lines("a\nb\n"), ElementsAre("a", "b"));
  EXPECT_THAT(Lines("a\r\nb\r\n"), ElementsAre("a", "b"));
  EXPECT_THAT(Lines("a\nb"), ElementsAre("a", "b"));
}

TEST(LineReaderTest, BlanksAroundLinesAndBlankLinesAtTheEndAreLeftOut) {
  EXPECT_THAT(Lines(" a \n\tb\n\n  \r\n"), ElementsAre("a", "b"));
}

TEST(LineReaderTest, BlankLinesBeforeTheEndStay) {
  EXPECT_THAT(Lines("\na\n\nb"), ElementsAre("", "a", "", "b"));
}

TEST(LineReaderTest, ByteOrderMarkIsLeftOut) {
  EXPECT_THAT(Lines("\xEF\xBB\xBF"
                    "a"),
              ElementsAre("a"));
}

TEST(LineReaderTest, TextOfBlanksHasNoLines) {
  EXPECT_THAT(Lines(""), IsEmpty());
  EXPECT_THAT(Lines(" \r\n\n"), IsEmpty());
}

TEST(LineReaderTest, ErrorsNameSourceAndLine) {
  LineReader reader("a\nb\n", "file x");
  absl::string_view line;
  reader.Next(&line);
  reader.Next(&line);
  EXPECT_EQ(reader.AtLine(absl::DataLossError("bad")), absl::DataLossError("file x, line 2: bad"));
}

std::string FloatError(absl::string_view token) {
  return std::string(ParseFiniteFloat(token).status().message());
}

std::string LabelError(absl::string_view token, int classes = 0) {
  return std::string(ParseLabel(token, classes).status().message());
}

TEST(ParseNumberTest, NumbersInEveryNotationAreRead) {
  EXPECT_EQ(*ParseFiniteFloat("16"), 16.0f);
  EXPECT_EQ(*ParseFiniteFloat("-0.5"), -0.5f);
  EXPECT_EQ(*ParseFiniteFloat("+2.5e-1"), 0.25f);
  EXPECT_EQ(*ParseFiniteFloat(" .5\t"), 0.5f);
  EXPECT_EQ(*ParseFiniteFloat("0.1"), 0.1f);
  EXPECT_EQ(*ParseFiniteFloat("3.4028235e38"), 3.4028235e38f);
}

TEST(ParseNumberTest, TooSmallANumberIsZero) {
  EXPECT_EQ(*ParseFiniteFloat("1e-60"), 0.0f);
  EXPECT_EQ(*ParseFiniteFloat("-1e-60"), 0.0f);
}

TEST(ParseNumberTest, WhatIsNotANumberIsQuoted) {
  EXPECT_EQ(FloatError("abc"), "expected a number, got 'abc'");
  for (const char* token : {"1;2", "1 2", "--1", "+-1", "+", "0x10", "1e", "1.2.3", "1\r2"}) {
    EXPECT_THAT(FloatError(token), HasSubstr("expected a number, got '")) << token;
  }
  EXPECT_EQ(FloatError(" "), "expected a number, got an empty field");
}

TEST(ParseNumberTest, NonFiniteNumbersAreRefused) {
  for (const char* token : {"nan", "NaN", "inf", "-inf", "Infinity"}) {
    EXPECT_THAT(FloatError(token), HasSubstr("expected a finite number, got '")) << token;
  }
  EXPECT_EQ(FloatError("-1e39"), "expected a number that fits float32, got '-1e39'");
}

TEST(ParseNumberTest, LongAndBinaryTokensStayShortAndPrintable) {
  EXPECT_EQ(FloatError(std::string("\0\n", 2)), "expected a number, got '\\x00'");
  EXPECT_EQ(FloatError(std::string(5000, 'x')),
            "expected a number, got '" + std::string(40, 'x') + "...'");
}

TEST(ParseNumberTest, LabelsMayBeWrittenAsFloats) {
  EXPECT_EQ(*ParseLabel("7", /*classes=*/10), 7);
  EXPECT_EQ(*ParseLabel(" 7.0 ", /*classes=*/0), 7);
  EXPECT_EQ(*ParseLabel("+1", /*classes=*/2), 1);
}

TEST(LabelReaderTest, MinusOneAndOneBecomeZeroAndOneInEveryNotation) {
  LabelReader labels(/*classes=*/0);
  for (const char* token : {"-1", "-1.0", "-1.000000", "-1e0", " -1 "}) {
    EXPECT_EQ(*labels.Read(token), 0) << token;
  }
  for (const char* token : {"1", "+1", "1.000000", "1e0"}) {
    EXPECT_EQ(*labels.Read(token), 1) << token;
  }
  EXPECT_THAT(labels.Read("0").status().message(),
              HasSubstr("label 0 in a file that mixes -1 with labels other than +1"));
}

TEST(LabelReaderTest, LabelsFromZeroStayAsTheyAre) {
  LabelReader labels(/*classes=*/3);
  EXPECT_EQ(*labels.Read("2.0"), 2);
  EXPECT_EQ(*labels.Read("0"), 0);
  EXPECT_THAT(labels.Read("3").status().message(), HasSubstr("expected a label below 3, got 3"));
  EXPECT_THAT(labels.Read("-1").status().message(), HasSubstr("label -1 in a file that mixes"));
  EXPECT_THAT(labels.Read("-2").status().message(), HasSubstr("expected a label from 0, got -2"));
}

TEST(ParseNumberTest, LabelsThatAreNoIntegersAreRefused) {
  for (const char* token : {"1.5", "cat", "nan", "1e50"}) {
    EXPECT_EQ(LabelError(token), std::string("expected an integer label, got '") + token + "'");
  }
  EXPECT_EQ(LabelError(""), "expected an integer label, got an empty field");
}

TEST(ParseNumberTest, LabelsOutOfRangeAreRefused) {
  EXPECT_EQ(LabelError("-1"), "expected a label from 0, got -1");
  EXPECT_THAT(LabelError("3", /*classes=*/3), HasSubstr("expected a label below 3, got 3"));
  EXPECT_EQ(LabelError("1048576"), "expected a label below 1048576, got 1048576");
  EXPECT_EQ(LabelError("20231231"), "expected a label below 1048576, got '20231231'");
}

}  // namespace
}  // namespace capstan
