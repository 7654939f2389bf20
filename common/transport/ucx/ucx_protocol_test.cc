#include "common/transport/ucx/ucx_protocol.h"

#include <gtest/gtest.h>

#include <string>

namespace capstan {
namespace {

absl::Span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// The bytes are a contract.
TEST(UcxHeadersTest, AGreetingIsItsVersionLittleEndianAndItsSecret) {
  const std::string secret = "0123456789abcdef";
  const std::string header = EncodeGreeting({/*version=*/0x04030201, secret});
  EXPECT_EQ(header, "\1\2\3\4" + secret);
  EXPECT_EQ(DecodeGreeting(BytesOf(header))->version, 0x04030201u);
  EXPECT_EQ(DecodeGreeting(BytesOf(header))->secret, secret);
}

TEST(UcxHeadersTest, AGrantIsANumberLittleEndian) {
  const std::string header = EncodeGrant(0x0807060504030201);
  EXPECT_EQ(header, "\1\2\3\4\5\6\7\10");
  EXPECT_EQ(DecodeGrant(BytesOf(header)), 0x0807060504030201u);
}

TEST(UcxHeadersTest, HeadersOfOtherLengthsAreRefused) {
  const std::string greeting = EncodeGreeting({UcxGreeting::kVersion, "0123456789abcdef"});
  for (size_t length = 0; length < 30; ++length) {
    const std::string bytes = (greeting + "0123456789").substr(0, length);
    EXPECT_EQ(DecodeGreeting(BytesOf(bytes)).has_value(), length == 20) << length;
    EXPECT_EQ(DecodeGrant(BytesOf(bytes)).has_value(), length == 8) << length;
  }
}

TEST(UcxWindowTest, TakesAsMuchAsItIsLarge) {
  UcxWindow window(1000);
  EXPECT_TRUE(window.Takes(1000));
  window.Use(600);
  EXPECT_TRUE(window.Takes(400));
  EXPECT_FALSE(window.Takes(401));
  window.Grant(100);
  EXPECT_TRUE(window.Takes(500));
  EXPECT_EQ(window.used_bytes(), 500);
}

TEST(UcxWindowTest, AMessageLargerThanTheWindowGoesOnceAQuarterIsUsedOrLess) {
  UcxWindow window(1000);
  EXPECT_TRUE(window.Takes(5000));
  window.Use(251);
  EXPECT_FALSE(window.Takes(5000));
  window.Grant(1);
  EXPECT_TRUE(window.Takes(5000));
  EXPECT_EQ(window.grant_bytes(), 250) << "what is not granted yet never keeps it waiting";
}

TEST(UcxWindowTest, NoMoreIsGrantedThanWasUsed) {
  UcxWindow window(1000);
  window.Use(300);
  window.Grant(~uint64_t{0});
  EXPECT_EQ(window.used_bytes(), 0);
}

TEST(UcxWindowTest, AMessageWithoutAPayloadCounts) {
  EXPECT_EQ(UcxWindow::Count(0), UcxWindow::kOverheadBytes);
  EXPECT_EQ(UcxWindow::Count(1024), UcxWindow::kOverheadBytes + 1024);
}

}  // namespace
}  // namespace capstan
