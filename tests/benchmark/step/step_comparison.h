#ifndef TESTS_BENCHMARK_STEP_STEP_COMPARISON_H_
#define TESTS_BENCHMARK_STEP_STEP_COMPARISON_H_

#include <string>
#include <vector>

#include "tests/benchmark/common/benchmark_figures.h"

namespace capstan {

// The transport and the program of a line. Capstan's steps and the all-reduces have the same bytes
// and the same number of processes; Capstan's servers are processes beside them.
struct StepContender {
  const char* transport;
  const char* program;
};

inline constexpr StepContender kCapstanGrpc = {"tcp", "capstan_grpc"};
inline constexpr StepContender kCapstanUcxTcp = {"tcp", "capstan_ucx"};
inline constexpr StepContender kGlooRing = {"tcp", "gloo_ring"};
inline constexpr StepContender kGlooRingChunked = {"tcp", "gloo_ring_chunked"};
inline constexpr StepContender kMpiTcp = {"tcp", "mpi"};
inline constexpr StepContender kCapstanUcx = {"shared_memory", "capstan_ucx"};
inline constexpr StepContender kMpiSharedMemory = {"shared_memory", "mpi"};

// One line of the comparison.
struct StepLine {
  StepContender contender;
  BenchmarkFigures figures;  // step_ms and gb_per_s; of Capstan also server_cpu_ms
};

// The steps of Capstan as multiples of the others' over the same transport. Leaves out ratios of
// lines that are missing.
BenchmarkFigures RatiosOf(const std::vector<StepLine>& lines);

// The medians over `runs`. All have the same lines, and there is at least one.
std::vector<StepLine> MedianLines(const std::vector<std::vector<StepLine>>& runs);

// A table for people, and an array of objects.
std::string LinesAsTable(const std::vector<StepLine>& lines);
BenchmarkFigures LinesAsJson(const std::vector<StepLine>& lines);

}  // namespace capstan

#endif  // TESTS_BENCHMARK_STEP_STEP_COMPARISON_H_
