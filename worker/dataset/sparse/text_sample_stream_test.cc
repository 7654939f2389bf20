#include "worker/dataset/sparse/text_sample_stream.h"

#include <glog/logging.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "worker/dataset/sparse/sparse_batch.h"
#include "worker/dataset/sparse/sparse_text_parser.h"
#include "worker/dataset/sparse/standard_input.h"
#include "worker/dataset/temp_file.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::StatusOr<std::unique_ptr<TextSampleStream>> Open(TextSampleStream::Options options) {
  return TextSampleStream::Create(std::move(options), MakeLibsvmLineParser({}));
}

std::unique_ptr<TextSampleStream> MustOpen(TextSampleStream::Options options) {
  absl::StatusOr<std::unique_ptr<TextSampleStream>> stream = Open(std::move(options));
  CHECK(stream.ok()) << stream.status();
  return *std::move(stream);
}

// Sample i has the key i.
std::string NumberedSamples(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) absl::StrAppend(&text, i % 2, " ", i, ":1\n");
  return text;
}

TextSampleStream::Options NumberedFile(int count, SampleShare share = {}) {
  TextSampleStream::Options options;
  options.path = WriteTempFile("samples", NumberedSamples(count));
  options.share = share;
  return options;
}

// The keys of the next batch.
std::vector<uint64_t> NextKeys(SampleStream& stream, size_t most) {
  SparseBatch batch;
  const absl::StatusOr<size_t> count = stream.Next(most, &batch);
  CHECK(count.ok()) << count.status();
  CHECK_EQ(*count, batch.size());
  return std::vector<uint64_t>(batch.keys().begin(), batch.keys().end());
}

std::string ErrorOf(TextSampleStream::Options options) {
  const std::unique_ptr<TextSampleStream> stream = MustOpen(std::move(options));
  SparseBatch batch;
  while (true) {
    const absl::StatusOr<size_t> count = stream->Next(/*most=*/2, &batch);
    if (!count.ok()) return std::string(count.status().message());
    if (*count == 0) return "no error";
  }
}

std::string ErrorOfText(absl::string_view text) {
  TextSampleStream::Options options;
  options.path = WriteTempFile("text", text);
  const std::string error = ErrorOf(options);
  const std::string source = absl::StrCat("data file ", options.path);
  return error.rfind(source, 0) == 0 ? error.substr(source.size()) : error;
}

TEST(TextSampleStreamTest, LastBatchOfAnEpochIsSmaller) {
  const std::unique_ptr<TextSampleStream> stream = MustOpen(NumberedFile(5));
  EXPECT_THAT(NextKeys(*stream, 2), ElementsAre(0, 1));
  EXPECT_THAT(NextKeys(*stream, 2), ElementsAre(2, 3));
  EXPECT_THAT(NextKeys(*stream, 2), ElementsAre(4));
  EXPECT_THAT(NextKeys(*stream, 2), IsEmpty());
  EXPECT_THAT(NextKeys(*stream, 2), IsEmpty());
}

TEST(TextSampleStreamTest, CompressedFileReadsTheSame) {
  TextSampleStream::Options options;
  options.path = WriteTempFile("samples", GzipBytes(NumberedSamples(3)));
  EXPECT_THAT(NextKeys(*MustOpen(options), 10), ElementsAre(0, 1, 2));
}

TEST(TextSampleStreamTest, WorkersTakeTurns) {
  EXPECT_THAT(NextKeys(*MustOpen(NumberedFile(8, {0, 3})), 10), ElementsAre(0, 3, 6));
  EXPECT_THAT(NextKeys(*MustOpen(NumberedFile(8, {1, 3})), 10), ElementsAre(1, 4, 7));
  EXPECT_THAT(NextKeys(*MustOpen(NumberedFile(8, {2, 3})), 10), ElementsAre(2, 5));
}

TEST(TextSampleStreamTest, EndlessStreamBeginsAgainWithFullBatches) {
  TextSampleStream::Options options = NumberedFile(5, {1, 2});
  options.passes = 0;
  const std::unique_ptr<TextSampleStream> stream = MustOpen(options);
  EXPECT_THAT(NextKeys(*stream, 5), ElementsAre(1, 3, 1, 3, 1));
  EXPECT_THAT(NextKeys(*stream, 2), ElementsAre(3, 1));
}

TEST(TextSampleStreamTest, AStreamEndsAfterItsPasses) {
  TextSampleStream::Options options = NumberedFile(5, {1, 2});
  options.passes = 3;
  const std::unique_ptr<TextSampleStream> stream = MustOpen(options);
  EXPECT_THAT(NextKeys(*stream, 4), ElementsAre(1, 3, 1, 3));
  EXPECT_THAT(NextKeys(*stream, 4), ElementsAre(1, 3));
  EXPECT_THAT(NextKeys(*stream, 4), IsEmpty());
}

TEST(TextSampleStreamTest, EachWorkerNeedsASample) {
  TextSampleStream::Options options = NumberedFile(2, {2, 3});
  for (const uint64_t passes : {0, 1}) {
    options.passes = passes;
    EXPECT_THAT(ErrorOf(options), HasSubstr(": expected a sample for each of 3 workers, got 2: use "
                                            "fewer workers, or more samples"));
  }
}

TEST(TextSampleStreamTest, LineOfColumnNamesIsSkippedInEachEpoch) {
  TextSampleStream::Options options;
  options.path = WriteTempFile("samples", absl::StrCat("click index\n", NumberedSamples(2)));
  options.has_header = true;
  options.passes = 0;
  EXPECT_THAT(NextKeys(*MustOpen(options), 4), ElementsAre(0, 1, 0, 1));
}

TEST(TextSampleStreamTest, StandardInputIsReadOnce) {
  StandardInput input;
  input.Write(NumberedSamples(3));
  input.End();
  TextSampleStream::Options options;
  options.path = "-";
  const std::unique_ptr<TextSampleStream> stream = MustOpen(options);
  EXPECT_THAT(NextKeys(*stream, 10), ElementsAre(0, 1, 2));
  EXPECT_THAT(NextKeys(*stream, 10), IsEmpty());
}

TEST(TextSampleStreamTest, StandardInputIsNotEndless) {
  TextSampleStream::Options options;
  options.path = "-";
  options.passes = 0;
  const absl::Status status = Open(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      status.message(),
      "expected a file for several passes through the samples, got standard input, which can be "
      "read only once: give a file, or read one epoch");
}

TEST(TextSampleStreamTest, WrongOptionsAreRefused) {
  EXPECT_THAT(Open({}).status().message(), HasSubstr("expected the path of a file of samples"));
  EXPECT_EQ(Open(NumberedFile(1, {3, 3})).status().message(),
            "expected a worker below the number of workers, got worker 3 of 3: number the workers "
            "from 0");
}

TEST(TextSampleStreamTest, ErrorsNameTheLine) {
  EXPECT_EQ(ErrorOfText("1 1:1\n0 1:1\n1 1:x\n"), ", line 3: index 1: expected a number, got 'x'");
  EXPECT_EQ(ErrorOfText("1 1:1\n\n \n0 1:1\n"),
            ", line 2: expected a sample, got a blank line: blank lines may only stand at the end");
  EXPECT_EQ(ErrorOfText(""), ": expected at least one sample, got an empty file");
  EXPECT_EQ(ErrorOfText("\n\n"),
            ": expected at least one sample, got a file without lines of samples");
  EXPECT_EQ(ErrorOfText("1 1:1\n\n\n"), "no error");
}

TEST(TextSampleStreamTest, CommentsAreNoSamples) {
  TextSampleStream::Options options;
  options.path = WriteTempFile("text", "# made by x\n1 1:1 # 2:1\n# 3:1\n0 4:1\n  # end\n");
  options.share = {/*worker=*/1, /*num_workers=*/2};
  EXPECT_THAT(NextKeys(*MustOpen(options), 5), ElementsAre(4));
  options.share = {};
  EXPECT_THAT(NextKeys(*MustOpen(options), 5), ElementsAre(1, 4));
}

TEST(TextSampleStreamTest, ErrorStays) {
  TextSampleStream::Options options;
  options.path = WriteTempFile("text", "1 1:1\nx\n1 2:1\n");
  const std::unique_ptr<TextSampleStream> stream = MustOpen(options);
  SparseBatch batch;
  EXPECT_TRUE(stream->Next(1, &batch).ok());
  const absl::Status status = stream->Next(1, &batch).status();
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(stream->Next(1, &batch).status(), status);
}

TEST(TextSampleStreamTest, BatchesOfTooManyFeaturesAreRefused) {
  TextSampleStream::Options options = NumberedFile(6);
  options.max_batch_features = 1;
  EXPECT_THAT(ErrorOf(options),
              HasSubstr(", line 2: expected at most 1 features in a batch, got more: use a smaller "
                        "batch"));
}

TEST(TextSampleStreamTest, LineLengthIsLimited) {
  TextSampleStream::Options options;
  options.path = WriteTempFile("text", "1 1:1\n1 1:1 2:1\n");
  options.max_line_bytes = 8;
  EXPECT_THAT(ErrorOf(options), HasSubstr(", line 2: expected at most 8 bytes in a line"));
}

TEST(TextSampleStreamTest, TruncatedGzipIsAnErrorAfterTheSamplesBeforeIt) {
  const std::string bytes = GzipBytes(NumberedSamples(4));
  TextSampleStream::Options options;
  options.path = WriteTempFile("samples.gz", bytes.substr(0, bytes.size() - 4));
  const std::unique_ptr<TextSampleStream> stream = MustOpen(options);
  EXPECT_THAT(NextKeys(*stream, 3), ElementsAre(0, 1, 2));
  SparseBatch batch;
  EXPECT_EQ(stream->Next(3, &batch).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace capstan
