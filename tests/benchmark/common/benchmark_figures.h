#ifndef TESTS_BENCHMARK_COMMON_BENCHMARK_FIGURES_H_
#define TESTS_BENCHMARK_COMMON_BENCHMARK_FIGURES_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

namespace capstan {

// The figures of one measurement, in the order of the output.
using BenchmarkFigures = nlohmann::ordered_json;

// The median of each figure over `runs`: one or more, all with the same figures.
BenchmarkFigures MediansOf(const std::vector<BenchmarkFigures>& runs);

// One line for each figure.
void PrintFigures(const BenchmarkFigures& figures);

// The functions below measure the machine itself, to print beside a benchmark's figures. Call them
// before any thread is made.

// 10^9 bytes copied a second by one core: the median of 9 copies of 64 MiB.
double MemcpyGigabytesPerSecond();

// Messages between two processes, to and fro over loopback TCP.
struct TcpFigures {
  double gb_per_s = 0;      // 10^9 bytes a second, both directions together
  double cpu_s_per_gb = 0;  // of both processes
};

// Sends messages of `bytes`, one at a time, for 0.5 s. The sockets always read into the same
// memory.
TcpFigures MeasureTcp(uint64_t bytes);

}  // namespace capstan

#endif  // TESTS_BENCHMARK_COMMON_BENCHMARK_FIGURES_H_
