#include "tests/benchmark/common/benchmark_figures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"

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

// 10^9 bytes a second of the fastest of some copies.
double FastestCopy() {
  const std::vector<char> from(64 << 20, 1);
  std::vector<char> to(from.size());
  double fastest = 0;
  for (int i = 0; i < 9; ++i) {
    const absl::Time begin = absl::Now();
    std::memcpy(to.data(), from.data(), from.size());
    const double seconds = absl::ToDoubleSeconds(absl::Now() - begin);
    fastest = std::max(fastest, static_cast<double>(from.size()) / seconds / 1e9);
  }
  return fastest;
}

TEST(BenchmarkFiguresTest, RatesOfTheMachineFitEachOther) {
  const double copy = MemcpyGigabytesPerSecond();
  const double fastest_copy = FastestCopy();
  EXPECT_GT(copy, fastest_copy / 10);
  EXPECT_LT(copy, fastest_copy * 2);
  const TcpFigures small = MeasureTcp(/*bytes=*/64), large = MeasureTcp(/*bytes=*/65536);
  EXPECT_GT(large.gb_per_s, 10 * small.gb_per_s) << "a message costs more than its bytes";
  EXPECT_LT(large.gb_per_s, fastest_copy) << "TCP copies each byte twice";
  for (const TcpFigures& tcp : {small, large}) {
    // CPU time, also where others use the machine.
    EXPECT_GT(tcp.cpu_s_per_gb, 0.25 / fastest_copy) << "TCP copies each byte twice";
    EXPECT_LE(tcp.cpu_s_per_gb * tcp.gb_per_s, 2) << "there are two processes of one thread";
  }
}

}  // namespace
}  // namespace capstan
