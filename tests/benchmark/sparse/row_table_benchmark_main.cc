// row_table_benchmark: how fast rows of sparse tables are found, updated and inserted, beside a
// hash map of Abseil.
#include <cstdint>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/program.h"
#include "common/base/status_macros.h"
#include "server/sparse/row_optimizer.h"
#include "tests/benchmark/common/benchmark_figures.h"
#include "tests/benchmark/sparse/row_table_load.h"

ABSL_FLAG(uint64_t, dim, 16, "float32 values of a row, 1 to 1024");
ABSL_FLAG(uint64_t, num_keys, 10'000'000, "rows of the table");
ABSL_FLAG(uint64_t, batch, 1024, "keys that are inserted at a time");
ABSL_FLAG(uint64_t, touches, 4'000'000, "keys that are found, and updated, in a measurement");
ABSL_FLAG(std::string, optimizer, "adagrad", "sgd, adagrad, row_adagrad, adam or ftrl");
ABSL_FLAG(int, repeat, 3, "measurements, each with new tables; medians are printed");
ABSL_FLAG(bool, json, false, "print one JSON object");

namespace capstan {
namespace {

absl::Status CheckPositive(const std::string& flag, uint64_t value) {
  if (value > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--", flag, ": expected 1 or more"));
}

absl::StatusOr<RowOptimizer::Type> TypeOfFlag() {
  using Type = RowOptimizer::Type;
  const std::map<std::string, Type> types = {{"sgd", Type::kSgd},
                                             {"adagrad", Type::kAdagrad},
                                             {"row_adagrad", Type::kRowAdagrad},
                                             {"adam", Type::kAdam},
                                             {"ftrl", Type::kFtrl}};
  const auto type = types.find(absl::GetFlag(FLAGS_optimizer));
  if (type != types.end()) return type->second;
  return absl::InvalidArgumentError(
      absl::StrCat("--optimizer: expected sgd, adagrad, row_adagrad, adam or ftrl, got \"",
                   absl::GetFlag(FLAGS_optimizer), "\""));
}

absl::StatusOr<RowTableLoad> LoadOfFlags() {
  RowTableLoad load;
  load.dim = absl::GetFlag(FLAGS_dim);
  load.num_keys = absl::GetFlag(FLAGS_num_keys);
  load.batch = absl::GetFlag(FLAGS_batch);
  load.touches = absl::GetFlag(FLAGS_touches);
  if (load.dim < 1 || load.dim > 1024) {
    return absl::InvalidArgumentError(absl::StrCat("--dim: expected 1 to 1024, got ", load.dim));
  }
  RETURN_IF_ERROR(CheckPositive("num_keys", load.num_keys));
  RETURN_IF_ERROR(CheckPositive("batch", load.batch));
  RETURN_IF_ERROR(CheckPositive("touches", load.touches));
  RETURN_IF_ERROR(CheckPositive("repeat", absl::GetFlag(FLAGS_repeat) > 0 ? 1 : 0));
  ASSIGN_OR_RETURN(load.optimizer.type, TypeOfFlag());
  return load;
}

absl::Status Run(const RowTableLoad& load) {
  std::vector<BenchmarkFigures> runs;
  for (int i = 0; i < absl::GetFlag(FLAGS_repeat); ++i) {
    ASSIGN_OR_RETURN(BenchmarkFigures figures, MeasureRowTable(load));
    runs.push_back(figures);
  }
  const BenchmarkFigures medians = MediansOf(runs);
  if (absl::GetFlag(FLAGS_json)) {
    std::cout << medians.dump() << "\n";
  } else {
    PrintFigures(medians);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  capstan::InitProgram(argv[0],
                       "measures the table of rows of a sparse table on one thread: insertion from "
                       "empty, finding rows with a copy of their values, and updating them. Beside "
                       "it an absl::flat_hash_map does the same (..._of_map: times as fast).\n"
                       "Times are CPU times of the thread.\n"
                       "  row_table_benchmark [--dim=16] [--optimizer=adagrad] [--json]");
  const absl::Status parsed = capstan::ParseProgramFlags({argv, argv + argc});
  if (!parsed.ok()) capstan::EndProgram("row_table_benchmark", parsed, /*is_usage_error=*/true);
  const auto load = capstan::LoadOfFlags();
  if (!load.ok()) {
    capstan::EndProgram("row_table_benchmark", load.status(), /*is_usage_error=*/true);
  }
  capstan::EndProgram("row_table_benchmark", capstan::Run(*load));
}
