#include "common/base/cpu_name.h"

#include <gtest/gtest.h>

namespace capstan {
namespace {

TEST(CpuNameTest, HasTheNameAndTheModelOfTheFirstCore) {
  EXPECT_EQ(CpuNameIn("processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\n"
                      "model name\t: Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz\nstepping\t: 4\n\n"
                      "processor\t: 1\nmodel\t\t: 86\nmodel name\t: another\n"),
            "Intel Xeon Gold 6130 @ 2.10GHz, family 6 model 85");
  EXPECT_EQ(CpuNameIn("cpu family\t: 25\nmodel\t: 17\nmodel name\t: AMD EPYC 9B14 Processor\n"),
            "AMD EPYC 9B14, family 25 model 17");
}

TEST(CpuNameTest, OfASystemThatDoesNotTellItIsUnknown) {
  EXPECT_EQ(CpuNameIn(""), "unknown CPU");
  EXPECT_EQ(CpuNameIn("processor : 0\nCPU part : 0xd0c\n"), "unknown CPU");
  EXPECT_EQ(CpuNameIn("model name : Vortex"), "Vortex");
}

TEST(CpuNameTest, OfThisMachineIsKnown) { EXPECT_NE(CpuName(), "unknown CPU"); }

}  // namespace
}  // namespace capstan
