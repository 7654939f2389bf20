#include "server/coordinator/state/state_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/escaping.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

constexpr absl::string_view kPayload = "payload";

TEST(StateFileTest, ThePayloadComesBack) {
  for (const absl::string_view payload : {absl::string_view(), kPayload}) {
    const std::string bytes = EncodeStateFile(payload);
    EXPECT_EQ(DecodeStateFile(bytes)->payload, payload);
  }
}

TEST(StateFileTest, TheBytesAreThoseOfFormatOne) {
  EXPECT_EQ(absl::BytesToHexString(EncodeStateFile(kPayload)),
            "6361707374616e2d73746174650a"  // magic
            "01000000"                      // version
            "0700000000000000"              // length
            "7b8d2d5bf061fe32"              // XXH3-64
            "7061796c6f6164");
  EXPECT_EQ(DecodeStateFile(EncodeStateFile(kPayload))->xxh3, 0x32fe61f05b2d8d7b);
}

TEST(StateFileTest, AFileThatEndsEarlyIsDamaged) {
  const std::string bytes = EncodeStateFile(kPayload);
  for (size_t length = 0; length < bytes.size(); ++length) {
    const absl::Status status = DecodeStateFile(bytes.substr(0, length)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << length;
    EXPECT_THAT(std::string(status.message()), HasSubstr("it is damaged")) << length;
  }
}

TEST(StateFileTest, AFileThatGoesOnIsDamaged) {
  EXPECT_EQ(DecodeStateFile(EncodeStateFile(kPayload) + "x").status().message(),
            "expected 41 bytes, got 42; it is damaged");
}

TEST(StateFileTest, NoOtherByteIsTaken) {
  const std::string bytes = EncodeStateFile(kPayload);
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] ^= 1;
    EXPECT_FALSE(DecodeStateFile(changed).ok()) << "byte " << i;
  }
}

TEST(StateFileTest, ANewerFormatIsLeftToItsVersion) {
  std::string bytes = EncodeStateFile(kPayload);
  bytes[14] = 2;
  const absl::Status status = DecodeStateFile(bytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(),
            "expected format 1, got 2, written by a newer version of Capstan; use that version");
}

TEST(StateFileTest, SomethingElseIsNoState) {
  const absl::Status status = DecodeStateFile(std::string(100, '\0')).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("expected a state of a Capstan coordinator"));
}

}  // namespace
}  // namespace capstan
