#include "worker/dataset/parse_number.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace capstan {
namespace {

using ::testing::HasSubstr;

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
