#include "common/base/cpu_name.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

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

TEST(CpuNameTest, OfArmHasItsNumbers) {
  EXPECT_EQ(CpuNameIn("processor\t: 0\nBogoMIPS\t: 243.75\nCPU implementer\t: 0x41\n"
                      "CPU architecture: 8\nCPU part\t: 0xd0c\n"),
            "CPU of implementer 0x41, part 0xd0c");
}

TEST(CpuNameTest, OfASystemThatDoesNotTellItIsUnknown) {
  EXPECT_EQ(CpuNameIn(""), "unknown CPU");
  EXPECT_EQ(CpuNameIn("processor : 0\nCPU part : 0xd0c\n"), "unknown CPU");
  EXPECT_EQ(CpuNameIn("model name : Vortex"), "Vortex");
}

TEST(CpuNameTest, OfThisMachineIsThatOfItsKernel) {
  std::ifstream file("/proc/cpuinfo");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(CpuName(), CpuNameIn(text.str()));
#if defined(__x86_64__) || defined(__aarch64__)
  EXPECT_NE(CpuName(), "unknown CPU");
#endif
}

}  // namespace
}  // namespace capstan
