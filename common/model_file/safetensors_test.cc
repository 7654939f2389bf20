#include "common/model_file/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

Safetensors Example() {
  Safetensors file;
  file.tensors.push_back({"fc1.weight", "F32", {2, 3}});
  file.tensors.push_back({"fc1.bias", "F32", {3}});
  file.metadata["job"] = "digits";
  return file;
}

// The bytes are a contract: other programs read them.
TEST(SafetensorsTest, EncodesTheBytesOfTheFormat) {
  const std::string json = R"({"__metadata__":{"job":"digits"},)"
                           R"("fc1.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                           R"("fc1.bias":{"dtype":"F32","shape":[3],"data_offsets":[24,36]}})";
  const std::string header = EncodeSafetensorsHeader(Example());
  EXPECT_EQ(header.substr(0, 8), std::string("\xb8\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(header.size(), 192u) << "a multiple of 64";
  EXPECT_EQ(header.substr(8), json + std::string(192 - 8 - json.size(), ' '));
}

TEST(SafetensorsTest, DecodesWhatItEncodes) {
  const std::string header = EncodeSafetensorsHeader(Example());
  const auto file = DecodeSafetensorsHeader(header.substr(8), header.size() + 36);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->header_bytes, 192u);
  EXPECT_THAT(file->metadata, ElementsAre(Pair("job", "digits")));
  ASSERT_EQ(file->tensors.size(), 2u);
  EXPECT_EQ(file->tensors[0].name, "fc1.weight");
  EXPECT_EQ(file->tensors[0].dtype, "F32");
  EXPECT_THAT(file->tensors[0].shape, ElementsAre(2, 3));
  EXPECT_EQ(file->tensors[0].offset, 192u);
  EXPECT_EQ(file->tensors[0].bytes, 24u);
  EXPECT_EQ(file->tensors[1].offset, 216u);
}

TEST(SafetensorsTest, ANameThatIsNoUtf8IsWrittenAsTextAndAScalarHasOneElement) {
  Safetensors file;
  file.tensors.push_back({"a\xff", "F32", {}});
  const std::string header = EncodeSafetensorsHeader(file);
  const auto decoded = DecodeSafetensorsHeader(header.substr(8), header.size() + 4);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->tensors[0].name, "a\xef\xbf\xbd");
}

TEST(SafetensorsTest, BracketsInTextAreNoLevels) {
  const std::string json = R"({"__metadata__":{"a":"\"[[[[[[{{{{"}})";
  const auto file = DecodeSafetensorsHeader(json, 8 + json.size());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->metadata.at("a"), "\"[[[[[[{{{{");
}

// Some writers put it there.
TEST(SafetensorsTest, NullIsNoMetadata) {
  const std::string json = R"({"__metadata__":null})";
  const auto file = DecodeSafetensorsHeader(json, 8 + json.size());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->metadata.empty());
}

TEST(SafetensorsTest, EveryDtypeOfTheFormatIsRead) {
  const std::pair<std::string, int> dtypes[] = {
      {"BOOL", 8}, {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},
      {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8},     {"F8_E4M3FNUZ", 8},
      {"I16", 16}, {"U16", 16},    {"F16", 16},    {"F8_E5M2FNUZ", 8}, {"BF16", 16},
      {"I32", 32}, {"U32", 32},    {"F32", 32},    {"C64", 64},        {"F64", 64},
      {"I64", 64}, {"U64", 64}};
  for (const auto& [dtype, bits] : dtypes) {
    // 8 elements.
    const std::string json = absl::StrCat(R"({"t":{"dtype":")", dtype,
                                          R"(","shape":[2,4],"data_offsets":[0,)", bits, "]}}");
    const auto file = DecodeSafetensorsHeader(json, 8 + json.size() + bits);
    EXPECT_TRUE(file.ok()) << file.status();
  }
}

TEST(SafetensorsTest, AHeaderIsAsLongAsAsked) {
  const std::string header = EncodeSafetensorsHeader(Example(), /*least_bytes=*/1000);
  EXPECT_EQ(header.size(), 1024u);
  EXPECT_TRUE(DecodeSafetensorsHeader(header.substr(8), header.size() + 36).ok());
  EXPECT_EQ(EncodeSafetensorsHeader(Example(), /*least_bytes=*/1024).size(), 1024u);
}

TEST(SafetensorsTest, RefusesWhatBreaksTheFormat) {
  const auto expect = [](const std::string& json, uint64_t data_bytes, const std::string& text) {
    const absl::Status status =
        DecodeSafetensorsHeader(json, 8 + json.size() + data_bytes).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << json << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text)) << json;
  };
  const auto tensor = [](const std::string& dtype, const std::string& shape,
                         const std::string& offsets) {
    return absl::StrCat("{\"t\":{\"dtype\":", dtype, ",\"shape\":", shape,
                        ",\"data_offsets\":", offsets, "}}");
  };
  expect("", 0, "a JSON object");
  expect(tensor("\"F4\"", "[3]", "[0,2]"), 2, "1.5 bytes, as its shape has for tensor t, got 2");
  expect(tensor("\"F6_E2M3\"", "[3]", "[0,2]"), 2, "2.25 bytes, as its shape has for tensor t");
  expect("[]", 0, "a JSON object");
  expect("{\"t\":", 0, "a JSON object");
  expect("{\"t\":1}", 0, "dtype, shape and data_offsets for tensor t");
  expect(tensor("4", "[1]", "[0,4]"), 4, "dtype, shape and data_offsets");
  expect(tensor("\"Q7\"", "[1]", "[0,4]"), 4, "a dtype such as F32 for tensor t, got Q7");
  expect(tensor("\"F32\"", "[-1]", "[0,4]"), 4, "a shape");
  expect(tensor("\"F32\"", "[1.0]", "[0,4]"), 4, "a shape");
  expect(tensor("\"F32\"", "[1]", "[4,0]"), 4, "data_offsets [BEGIN, END]");
  expect(tensor("\"F32\"", "[1]", "[0,4,4]"), 4, "data_offsets [BEGIN, END]");
  expect(tensor("\"F32\"", "[2]", "[0,4]"), 4, "8 bytes, as its shape has for tensor t, got 4");
  expect(tensor("\"F32\"", "[4611686018427387905]", "[0,4]"), 4, "2^64 or more bytes");
  expect(tensor("\"F32\"", "[0]", "[18446744073709551615,18446744073709551615]"), 4, "2^64");
  expect(tensor("\"F32\"", "[1]", "[0,4]"), 3, ", got 65: its end is missing; copy or download");
  expect(tensor("\"F32\"", "[1]", "[0,4]"), 5, "expected a safetensors file of");
  expect(tensor("\"F32\"", "[1]", "[4,8]"), 8, "bytes from");
  expect(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
         R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
         3, "for tensor b");
  expect(" {}", 0, "a JSON object");
  expect(std::string("{}\0x", 4), 0, "a JSON object");
  expect(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
         R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
         2, "each name once");
  std::string ones = "1";
  for (int i = 0; i < 32; ++i) ones += ",1";
  expect(tensor("\"U8\"", "[" + ones + "]", "[0,1]"), 1, "at most 32 sizes");
  expect("{\"t\":" + std::string(1'000'000, '['), 0, "at most 3 levels");
  expect("{\"__metadata__\":{\"a\":1}}", 0, "metadata of texts, got another value of a");
  expect("{\"__metadata__\":7}", 0, "metadata of texts");
  EXPECT_FALSE(DecodeSafetensorsHeader("{}", 9).ok()) << "the file ends within its header";
}

}  // namespace
}  // namespace capstan
