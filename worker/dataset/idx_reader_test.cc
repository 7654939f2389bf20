#include "worker/dataset/idx_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "absl/strings/str_cat.h"
#include "worker/dataset/temp_file.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string BigEndian(std::initializer_list<uint32_t> words) {
  std::string bytes;
  for (const uint32_t word : words) {
    for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<char>(word >> shift));
  }
  return bytes;
}

// Two images of 2 x 3 pixels.
std::string Images() {
  return BigEndian({0x803, 2, 2, 3}) + std::string("\0\1\2\3\4\5\6\7\10\11\12\377", 12);
}
std::string Labels() { return BigEndian({0x801, 2}) + std::string("\0\7", 2); }

absl::StatusOr<Dataset> Read(const std::string& images, const std::string& labels,
                             int classes = 0) {
  return ReadIdx({WriteTempFile("images", images), WriteTempFile("labels", labels)}, classes);
}

std::string Error(const std::string& images, const std::string& labels, int classes = 0) {
  return std::string(Read(images, labels, classes).status().message());
}

TEST(IdxReaderTest, ImagesAndLabelsAreRead) {
  const absl::StatusOr<Dataset> data = Read(Images(), GzipBytes(Labels()));
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->feature_count, 6);
  EXPECT_EQ(data->class_count, 8);
  EXPECT_THAT(data->labels, ElementsAre(0, 7));
  EXPECT_THAT(data->Row(1), ElementsAre(6, 7, 8, 9, 10, 255));
}

TEST(IdxReaderTest, SwappedFilesAreRecognised) {
  EXPECT_THAT(Error(Labels(), Images()),
              HasSubstr("images: expected magic number 0x00000803 (a file of images), got "
                        "0x00000801 (a file of labels): are the paths of images and labels "
                        "swapped?"));
}

TEST(IdxReaderTest, OtherMagicNumbersAreRefused) {
  EXPECT_THAT(Error("1,2,3\n", Labels()), HasSubstr("got 0x312c322c (not an IDX file"));
  EXPECT_THAT(Error(Images(), BigEndian({0x802, 2, 1}) + "aa"), HasSubstr("got 0x00000802"));
}

TEST(IdxReaderTest, EmptyFileIsRefused) {
  EXPECT_THAT(Error("", Labels()), HasSubstr("images: the file is empty"));
}

TEST(IdxReaderTest, EveryTruncationIsDataLossThatNamesTheFile) {
  for (size_t length = 1; length < Images().size(); ++length) {
    const absl::Status status = Read(Images().substr(0, length), Labels()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << length;
    EXPECT_THAT(status.message(), HasSubstr("images: truncated: ")) << length;
  }
  for (size_t length = 1; length < Labels().size(); ++length) {
    const absl::Status status = Read(Images(), Labels().substr(0, length)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << length;
    EXPECT_THAT(status.message(), HasSubstr("labels: truncated: ")) << length;
  }
}

TEST(IdxReaderTest, LengthThatDoesNotFitTheHeaderIsRefused) {
  EXPECT_THAT(Error(Images() + "x", Labels()),
              HasSubstr("images: its header says 2 x 2 x 3, 28 bytes in all, got 29"));
  EXPECT_THAT(Error(BigEndian({0x803, UINT32_MAX, UINT32_MAX, UINT32_MAX}), Labels()),
              HasSubstr("truncated: its header says 4294967295 x 4294967295 x 4294967295"));
}

TEST(IdxReaderTest, CountsThatDifferAreRefused) {
  const std::string message = Error(Images(), BigEndian({0x801, 3}) + "abc");
  EXPECT_THAT(message, HasSubstr("images has 2 images, but "));
  EXPECT_THAT(message, HasSubstr("labels has 3 labels"));
}

TEST(IdxReaderTest, DimensionOfZeroIsRefused) {
  EXPECT_THAT(Error(BigEndian({0x803, 0, 28, 28}), Labels()),
              HasSubstr("images: dimension 1 of 3 is 0: no samples"));
}

TEST(IdxReaderTest, LabelOutOfRangeIsNamed) {
  EXPECT_TRUE(Read(Images(), Labels(), /*classes=*/8).ok());
  EXPECT_THAT(Error(Images(), Labels(), /*classes=*/7),
              HasSubstr("labels, label 1 (from 0): expected a label below 7, got 7"));
}

TEST(IdxReaderTest, MissingFileIsNotFound) {
  EXPECT_EQ(ReadIdx({"/nowhere", "/nowhere"}, /*classes=*/0).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace capstan
