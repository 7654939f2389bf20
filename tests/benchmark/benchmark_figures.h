#ifndef TESTS_BENCHMARK_BENCHMARK_FIGURES_H_
#define TESTS_BENCHMARK_BENCHMARK_FIGURES_H_

#include <nlohmann/json.hpp>
#include <vector>

namespace capstan {

// What one measurement gave, in the order in which it is printed.
using BenchmarkFigures = nlohmann::ordered_json;

// The median of each figure over `runs`, of which there is one or more, all with the same figures.
BenchmarkFigures MediansOf(const std::vector<BenchmarkFigures>& runs);

// One line for each figure.
void PrintFigures(const BenchmarkFigures& figures);

}  // namespace capstan

#endif  // TESTS_BENCHMARK_BENCHMARK_FIGURES_H_
