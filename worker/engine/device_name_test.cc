#include "worker/engine/device_name.h"

#include <gtest/gtest.h>

namespace capstan {
namespace {

TEST(DeviceNameTest, ReadsTheCpuAndGpusByNumber) {
  EXPECT_FALSE(ParseDeviceName("cpu")->is_cuda);
  EXPECT_TRUE(ParseDeviceName("cuda")->is_cuda);
  EXPECT_EQ(ParseDeviceName("cuda")->number, 0);
  EXPECT_TRUE(ParseDeviceName("cuda:12")->is_cuda);
  EXPECT_EQ(ParseDeviceName("cuda:12")->number, 12);
}

TEST(DeviceNameTest, RefusesAnythingElse) {
  for (const char* text : {"", "gpu", "CPU", "cuda:", "cuda:x", "cuda:-1", "cuda: 1", "cuda:1.5",
                           "cuda:99999999999", "cpu:0", "cuda:0,cuda:1"}) {
    const auto name = ParseDeviceName(text);
    EXPECT_TRUE(absl::IsInvalidArgument(name.status())) << text;
  }
  EXPECT_EQ(ParseDeviceName("gpu").status().message(),
            "--device: expected cpu, cuda or cuda:N with the number of a GPU, from 0; got \"gpu\"");
}

}  // namespace
}  // namespace capstan
