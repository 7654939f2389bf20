#include "worker/dataset/csv_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "worker/dataset/temp_file.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Dataset Parse(absl::string_view text, const CsvOptions& options = {}) {
  absl::StatusOr<Dataset> data = ParseCsv(text, "file x", options);
  EXPECT_TRUE(data.ok()) << data.status();
  return data.ok() ? *std::move(data) : Dataset();
}

std::string Error(absl::string_view text, const CsvOptions& options = {}) {
  const absl::StatusOr<Dataset> data = ParseCsv(text, "file x", options);
  EXPECT_FALSE(data.ok()) << text;
  return std::string(data.status().message());
}

TEST(CsvReaderTest, LastColumnIsTheLabel) {
  const Dataset data = Parse("1,2.5,0\n-3,4e1,2\n");
  EXPECT_EQ(data.feature_count, 2);
  EXPECT_EQ(data.class_count, 3);
  EXPECT_THAT(data.features, ElementsAre(1, 2.5, -3, 40));
  EXPECT_THAT(data.labels, ElementsAre(0, 2));
  EXPECT_THAT(data.Row(1), ElementsAre(-3, 40));
}

TEST(CsvReaderTest, LabelColumnCanBeChosen) {
  CsvOptions options;
  options.label_column = 0;
  EXPECT_THAT(Parse("1,5,6\n0,7,8\n", options).features, ElementsAre(5, 6, 7, 8));
  options.label_column = 1;
  EXPECT_THAT(Parse("5,1,6\n7,0,8\n", options).labels, ElementsAre(1, 0));
}

TEST(CsvReaderTest, HeaderIsSkipped) {
  CsvOptions options;
  options.has_header = true;
  EXPECT_EQ(Parse("x,y,\"label, or so\"\n1,2,0\n", options).size(), 1);
}

TEST(CsvReaderTest, BlanksWindowsLineEndsAndAMissingLastLineEndAreAccepted) {
  const Dataset data = Parse("\xEF\xBB\xBF 1 ,\t2, 0\r\n3,4 ,1 \r\n5,6,1");
  EXPECT_THAT(data.features, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(data.labels, ElementsAre(0, 1, 1));
  EXPECT_EQ(Parse("1,0\n2,1\n\n").size(), 2);
}

// As Excel, R and csv.QUOTE_ALL write them.
TEST(CsvReaderTest, FieldsMayHaveQuotes) {
  const Dataset data = Parse("\"1\",2,\"0\"\n 3 , \"4e1\" ,1\n");
  EXPECT_THAT(data.features, ElementsAre(1, 2, 3, 40));
  EXPECT_THAT(data.labels, ElementsAre(0, 1));
  CsvOptions options;
  options.has_header = true;
  EXPECT_EQ(Parse("\"x, \"\"wide\"\"\",\"the\nlabel\"\n\"1\",\"0\"\n", options).size(), 1);
  EXPECT_EQ(Parse("5\" pipe,label\n1,0\n", options).size(), 1) << "no quotes around the name";
}

TEST(CsvReaderTest, QuotesThatDoNotEndAreRefused) {
  for (const char* row : {"\"1,0", "\"1\"2,0", "1,\"0", "\"1\"\",0"}) {
    EXPECT_THAT(Error(absl::StrCat("1,0\n", row, "\n")),
                HasSubstr("file x, line 2: expected quotes at both ends of a field"))
        << row;
    EXPECT_THAT(Error(row), HasSubstr("file x, line 1: expected quotes")) << row;
  }
  EXPECT_EQ(Error("\"1,5\",0\n"),
            "file x, line 1: column 0 (from 0): expected a number, got '1,5' (if the first line "
            "names the columns, give --has_header)");
}

TEST(CsvReaderTest, MinusOneAndOneBecomeZeroAndOne) {
  const Dataset data = Parse("1,-1\n2,1\n3,-1.0\n");
  EXPECT_THAT(data.labels, ElementsAre(0, 1, 0));
  EXPECT_EQ(data.class_count, 2);
}

TEST(CsvReaderTest, PlainAndCompressedFilesAreRead) {
  for (const std::string& bytes : {std::string("1,0\n2,1\n"), GzipBytes("1,0\n2,1\n")}) {
    const absl::StatusOr<Dataset> data = ReadCsv(WriteTempFile("x.csv", bytes), CsvOptions());
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_THAT(data->features, ElementsAre(1, 2));
  }
}

TEST(CsvReaderTest, ErrorsOfAFileNameIt) {
  const std::string path = WriteTempFile("x.csv", "1,0\n2\n");
  EXPECT_EQ(ReadCsv(path, CsvOptions()).status().message(),
            absl::StrCat("data file ", path, ", line 2: expected 2 columns as in line 1, got 1"));
  EXPECT_EQ(ReadCsv("/nowhere", CsvOptions()).status().code(), absl::StatusCode::kNotFound);
}

TEST(CsvReaderTest, WrongColumnCountIsComparedWithTheFirstSample) {
  EXPECT_EQ(Error("1,2,0\n1,2,0\n1,2,3,0\n"),
            "file x, line 3: expected 3 columns as in line 1, got 4");
  EXPECT_EQ(Error("1,2,0\n\n1,2,0\n"),
            "file x, line 2: expected 3 columns as in line 1, got a blank line");
  CsvOptions options;
  options.has_header = true;
  EXPECT_EQ(Error("a,b\n1,2,0\n1,0\n", options),
            "file x, line 3: expected 3 columns as in line 2, got 2");
}

TEST(CsvReaderTest, WhatIsNotAFiniteNumberIsNamedWithItsColumn) {
  EXPECT_EQ(Error("1,2,0\n1,x,0\n"),
            "file x, line 2: column 1 (from 0): expected a number, got 'x'");
  EXPECT_EQ(Error("1,2,0\n,2,0\n"),
            "file x, line 2: column 0 (from 0): expected a number, got an empty field");
  EXPECT_EQ(Error("1,2,0\nnan,2,0\n"),
            "file x, line 2: column 0 (from 0): expected a finite number, got 'nan'");
}

TEST(CsvReaderTest, NamesInTheFirstLineAreExplained) {
  EXPECT_EQ(
      Error("x,label\n1,0\n"),
      "file x, line 1: column 0 (from 0): expected a number, got 'x' (if the first line names "
      "the columns, give --has_header)");
  EXPECT_EQ(Error("\"the\nwidth\",label\n1,0\n"),
            "file x, line 1: expected quotes at both ends of a field in one line, as in "
            "\"1.5\",\"2\", got others (if the first line names the columns, give --has_header)");
}

TEST(CsvReaderTest, AQuoteThatDoesNotEndInTheNamesIsRefused) {
  CsvOptions options;
  options.has_header = true;
  EXPECT_EQ(Error("\"width,label\n1,0\n2,1\n", options),
            "file x, line 1: expected a quote at the end of each name that begins with one, got "
            "none in the rest of the file");
}

TEST(CsvReaderTest, BadLabelsAreRefused) {
  EXPECT_EQ(Error("1,0\n2,0.5\n"),
            "file x, line 2: column 1 (from 0): expected an integer label, got '0.5'");
  EXPECT_EQ(Error("1,0\n2,-2\n"),
            "file x, line 2: column 1 (from 0): expected a label from 0, got -2");
  EXPECT_THAT(Error("1,0\n2,-1\n"), HasSubstr("column 1 (from 0): label -1 in a file that mixes"));
  CsvOptions options;
  options.classes = 3;
  EXPECT_THAT(Error("1,0\n2,3\n", options), HasSubstr("expected a label below 3, got 3"));
}

TEST(CsvReaderTest, MissingLabelColumnIsRefused) {
  for (const int column : {3, -2}) {
    CsvOptions options;
    options.label_column = column;
    EXPECT_EQ(Error("1,2,0\n", options),
              absl::StrCat("file x, line 1: label column ", column,
                           " does not exist, the file has 3 columns: pass --label_column from 0 to "
                           "2, or -1 for the last one"));
  }
}

TEST(CsvReaderTest, OtherSeparatorsAreRefused) {
  EXPECT_EQ(Error("1;2;0\n"),
            "file x, line 1: expected at least 2 columns separated by commas, got '1;2;0': is the "
            "file CSV?");
}

TEST(CsvReaderTest, FileWithoutSamplesIsRefused) {
  EXPECT_EQ(Error(""), "file x: expected at least one sample, got an empty file");
  EXPECT_EQ(Error("\r\n\n"), "file x: expected at least one sample, got an empty file");
  CsvOptions options;
  options.has_header = true;
  EXPECT_EQ(Error("a,b\n", options),
            "file x: expected at least one sample, got nothing after the line of column names");
}

}  // namespace
}  // namespace capstan
