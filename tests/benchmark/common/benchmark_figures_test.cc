#include "tests/benchmark/common/benchmark_figures.h"

#include <gtest/gtest.h>

namespace capstan {
namespace {

TEST(BenchmarkFiguresTest, MedianIsOfEachFigureByItself) {
  const BenchmarkFigures medians =
      MediansOf({{{"ms", 3}, {"gb", 0.5}}, {{"ms", 1}, {"gb", 0.25}}, {{"ms", 2}, {"gb", 8}}});
  EXPECT_EQ(medians.dump(), R"({"ms":2.0,"gb":0.5})");
}

TEST(BenchmarkFiguresTest, OneRunIsItsOwnMedian) {
  EXPECT_EQ(MediansOf({{{"ms", 3}}}).dump(), R"({"ms":3.0})");
}

TEST(BenchmarkFiguresTest, TheMachineHasRates) {
  EXPECT_GT(MemcpyGigabytesPerSecond(), 0);
  const TcpFigures tcp = MeasureTcp(/*bytes=*/65536);
  EXPECT_GT(tcp.gb_per_s, 0);
  EXPECT_GT(tcp.cpu_s_per_gb, 0);
}

}  // namespace
}  // namespace capstan
