#ifndef TESTS_BENCHMARK_CHECKPOINT_CUT_PAUSES_H_
#define TESTS_BENCHMARK_CHECKPOINT_CUT_PAUSES_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "tests/benchmark/common/benchmark_figures.h"
#include "tests/benchmark/sparse/row_batches.h"

namespace capstan {

// A worker exchanges batches of rows with a server in this process, without a transport, while all
// rows are copied for a checkpoint. A batch is pushed and the next one pulled; keys are uniform.
struct CutPauses {
  Clock* clock = nullptr;  // Required; outlives the call
  std::string dir;         // Required: the folder of the checkpoint
  RowBatchesLoad batches;
  size_t between = 200;  // batches without a copy, before and between the two kinds of it
};

// Milliseconds of the longest batch beyond the median of those without a copy: if each shard's rows
// are copied while its lock is held, and if they are cut and written by a CheckpointWriter. ABORTED
// or another error: an exchange or the checkpoint failed.
absl::StatusOr<BenchmarkFigures> MeasureCutPauses(const CutPauses& load);

}  // namespace capstan

#endif  // TESTS_BENCHMARK_CHECKPOINT_CUT_PAUSES_H_
