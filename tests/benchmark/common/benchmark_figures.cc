#include "tests/benchmark/common/benchmark_figures.h"

#include <algorithm>
#include <iostream>

#include "absl/strings/str_format.h"

namespace capstan {

BenchmarkFigures MediansOf(const std::vector<BenchmarkFigures>& runs) {
  BenchmarkFigures medians;
  for (const auto& [key, unused] : runs.at(0).items()) {
    std::vector<double> values;
    for (const BenchmarkFigures& figures : runs) values.push_back(figures.at(key));
    std::sort(values.begin(), values.end());
    medians[key] = values[values.size() / 2];
  }
  return medians;
}

void PrintFigures(const BenchmarkFigures& figures) {
  for (const auto& [key, value] : figures.items()) {
    std::cout << absl::StrFormat("%-20s %12.4g\n", key, value.get<double>());
  }
}

}  // namespace capstan
