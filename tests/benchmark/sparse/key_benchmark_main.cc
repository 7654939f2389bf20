// key_benchmark: how fast keys of sparse tables are grouped and sent, beside std::sort and LEB128.
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/program.h"
#include "common/base/status_macros.h"
#include "tests/benchmark/common/benchmark_figures.h"
#include "tests/benchmark/sparse/key_load.h"

ABSL_FLAG(uint64_t, num_keys, 10'000'000, "keys of the table");
ABSL_FLAG(uint64_t, batch, 100'000, "keys of a batch, 1 to 10000000");
ABSL_FLAG(uint64_t, batches, 10, "batches in a measurement, 1 to 1000");
ABSL_FLAG(uint64_t, shards, 8, "shards of the table, 1 to 65536");
ABSL_FLAG(uint64_t, dim, 16, "float32 values of a row, 1 to 1024");
ABSL_FLAG(int, repeat, 5, "measurements; medians are printed");
ABSL_FLAG(bool, json, false, "print one JSON object");

namespace capstan {
namespace {

absl::Status CheckRange(const std::string& flag, uint64_t value, uint64_t largest) {
  if (value >= 1 && value <= largest) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, ": expected 1 to ", largest, ", got ", value));
}

absl::StatusOr<KeyLoad> LoadOfFlags() {
  KeyLoad load;
  load.num_keys = absl::GetFlag(FLAGS_num_keys);
  load.batch = absl::GetFlag(FLAGS_batch);
  load.batches = absl::GetFlag(FLAGS_batches);
  load.dim = absl::GetFlag(FLAGS_dim);
  RETURN_IF_ERROR(CheckRange("num_keys", load.num_keys, UINT64_MAX));
  RETURN_IF_ERROR(CheckRange("batch", load.batch, 10'000'000));
  RETURN_IF_ERROR(CheckRange("batches", load.batches, 1000));
  RETURN_IF_ERROR(CheckRange("shards", absl::GetFlag(FLAGS_shards), 65536));
  RETURN_IF_ERROR(CheckRange("dim", load.dim, 1024));
  if (absl::GetFlag(FLAGS_repeat) < 1) {
    return absl::InvalidArgumentError("--repeat: expected 1 or more");
  }
  load.shards = static_cast<uint32_t>(absl::GetFlag(FLAGS_shards));
  return load;
}

absl::Status Run(const KeyLoad& load) {
  std::vector<BenchmarkFigures> runs;
  for (int i = 0; i < absl::GetFlag(FLAGS_repeat); ++i) {
    ASSIGN_OR_RETURN(BenchmarkFigures figures, MeasureKeys(load));
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
                       "measures what a worker and a server do with the keys of a batch, on one "
                       "thread: shards, groups by shard, lists as bytes and back, a row for each "
                       "input, sums of gradients. Beside it std::sort makes the same groups, and "
                       "LEB128 the same lists (..._of_...: times as fast).\n"
                       "Times are CPU times of the thread.\n"
                       "  key_benchmark [--batch=100000] [--shards=8] [--dim=16] [--json]");
  const absl::Status parsed = capstan::ParseProgramFlags({argv, argv + argc});
  if (!parsed.ok()) capstan::EndProgram("key_benchmark", parsed, /*is_usage_error=*/true);
  const auto load = capstan::LoadOfFlags();
  if (!load.ok()) capstan::EndProgram("key_benchmark", load.status(), /*is_usage_error=*/true);
  capstan::EndProgram("key_benchmark", capstan::Run(*load));
}
