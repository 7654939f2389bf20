#include "common/transport/ucx_protocol.h"

#include <gtest/gtest.h>

namespace capstan {
namespace {

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
