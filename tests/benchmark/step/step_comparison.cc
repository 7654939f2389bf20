#include "tests/benchmark/step/step_comparison.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace capstan {
namespace {

// A ratio has one transport: shared memory beside TCP would say nothing about the programs.
struct Ratio {
  const char* name;
  StepContender step;
  const char* baseline;  // a program over the same transport
};

constexpr Ratio kRatios[] = {
    {"ratio_to_gloo", kCapstanUcxTcp, kGlooRing.program},
    {"ratio_to_mpi_tcp", kCapstanUcxTcp, kMpiTcp.program},
    {"grpc_ratio_to_gloo", kCapstanGrpc, kGlooRing.program},
    {"ratio_to_mpi_shared_memory", kCapstanUcx, kMpiSharedMemory.program},
};

constexpr const char* kColumns[] = {"step_ms", "gb_per_s", "server_cpu_ms"};

// Null: there is no such line.
const StepLine* Find(const std::vector<StepLine>& lines, absl::string_view transport,
                     absl::string_view program) {
  const auto found = std::find_if(lines.begin(), lines.end(), [&](const StepLine& line) {
    return line.contender.transport == transport && line.contender.program == program;
  });
  return found == lines.end() ? nullptr : &*found;
}

}  // namespace

BenchmarkFigures RatiosOf(const std::vector<StepLine>& lines) {
  BenchmarkFigures ratios = BenchmarkFigures::object();
  for (const auto& [name, step, baseline_program] : kRatios) {
    const StepLine* const line = Find(lines, step.transport, step.program);
    const StepLine* const baseline = Find(lines, step.transport, baseline_program);
    if (line == nullptr || baseline == nullptr) continue;
    ratios[name] =
        line->figures["step_ms"].get<double>() / baseline->figures["step_ms"].get<double>();
  }
  return ratios;
}

std::vector<StepLine> MedianLines(const std::vector<std::vector<StepLine>>& runs) {
  std::vector<StepLine> medians = runs.at(0);
  for (size_t i = 0; i < medians.size(); ++i) {
    std::vector<BenchmarkFigures> figures;
    for (const std::vector<StepLine>& run : runs) figures.push_back(run.at(i).figures);
    medians[i].figures = MediansOf(figures);
  }
  return medians;
}

std::string LinesAsTable(const std::vector<StepLine>& lines) {
  std::string table = absl::StrFormat("%-14s %-18s", "transport", "program");
  for (const char* column : kColumns) absl::StrAppendFormat(&table, " %13s", column);
  for (const auto& [contender, figures] : lines) {
    absl::StrAppendFormat(&table, "\n%-14s %-18s", contender.transport, contender.program);
    for (const char* column : kColumns) {
      if (!figures.contains(column)) continue;
      absl::StrAppendFormat(&table, " %13.4g", figures[column].get<double>());
    }
  }
  return absl::StrCat(table, "\n");
}

BenchmarkFigures LinesAsJson(const std::vector<StepLine>& lines) {
  BenchmarkFigures array = BenchmarkFigures::array();
  for (const auto& [contender, figures] : lines) {
    BenchmarkFigures line = {{"transport", contender.transport}, {"program", contender.program}};
    line.update(figures);
    array.push_back(line);
  }
  return array;
}

}  // namespace capstan
