#ifndef TESTS_BENCHMARK_COMMON_BENCHMARK_FIGURES_H_
#define TESTS_BENCHMARK_COMMON_BENCHMARK_FIGURES_H_

#include <nlohmann/json.hpp>
#include <vector>

namespace capstan {

// The figures of one measurement, in the order of the output.
using BenchmarkFigures = nlohmann::ordered_json;

// The median of each figure over `runs`: one or more, all with the same figures.
BenchmarkFigures MediansOf(const std::vector<BenchmarkFigures>& runs);

// One line for each figure.
void PrintFigures(const BenchmarkFigures& figures);

}  // namespace capstan

#endif  // TESTS_BENCHMARK_COMMON_BENCHMARK_FIGURES_H_
