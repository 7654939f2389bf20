#include "tests/simulation/restored_updates.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/history/check/slice_contents.h"

namespace capstan {
namespace {

v1::RestoredSlice::Update& Add(WorkerId worker, Step step, v1::RestoredSlice& restored) {
  v1::RestoredSlice::Update& update = *restored.add_updates();
  update.set_worker(worker.value());
  update.set_step(step.value());
  return update;
}

// The pushes without a gradient among the steps that the slice has completed.
void AddEmptyPushes(const SliceSnapshot& slice, const Scenario& life, v1::RestoredSlice& restored) {
  for (const StepVector::Entry& worker : slice.workers) {
    for (Step step; step < worker.completed; step = step + 1) {
      if (HasGradient(life, worker.worker, step, slice.key.table)) continue;
      Add(worker.worker, step, restored).set_is_empty_push(true);
    }
  }
}

// The rows of a sparse slice, in order of worker: as the values of a dense one.
std::vector<float> RowsOf(const SliceSnapshot& slice, const Scenario& life) {
  const std::vector<uint64_t> keys = SparseKeysByShard(life.job)[slice.key.slice.value()];
  const SparseRowsSnapshot& rows = *slice.rows;
  std::vector<float> values(keys.size() * rows.dim);
  for (size_t worker = 0; worker < keys.size(); ++worker) {
    const auto found = std::lower_bound(rows.keys.begin(), rows.keys.end(), keys[worker]);
    if (found == rows.keys.end() || *found != keys[worker]) continue;
    std::copy_n(
        rows.values.begin() + (found - rows.keys.begin()) * static_cast<ptrdiff_t>(rows.dim),
        rows.dim, values.begin() + static_cast<ptrdiff_t>(worker * rows.dim));
  }
  return values;
}

}  // namespace

v1::RestoredSlice UpdatesOf(const SliceSnapshot& slice, const Scenario& life) {
  const uint32_t num_workers = life.job.cluster().num_workers();
  v1::RestoredSlice restored;
  restored.set_table(slice.key.table.value());
  restored.set_slice(slice.key.slice.value());
  std::vector<float> values(slice.values.size_bytes() / sizeof(float));
  slice.values.CopyTo(absl::MakeSpan(values));
  if (slice.rows != nullptr) values = RowsOf(slice, life);
  const auto contents = SliceContents::Decode(values, num_workers, life.steps);
  if (!contents.ok()) return restored;  // The pulls of these values break a rule.
  for (uint32_t worker = 0; worker < num_workers; ++worker) {
    for (Step step; step < Step(life.steps); step = step + 1) {
      const WorkerId id(worker);
      if (!contents->Has(id, step)) continue;
      const auto divisor = static_cast<uint64_t>(contents->DivisorOf(id, step));
      Add(id, step, restored).set_learning_rate_divisor(divisor);
    }
  }
  for (const SliceSnapshot::KeptPush& push : slice.kept) {
    if (!push.is_empty) Add(push.worker, push.step, restored);
  }
  if (life.program.has_value()) AddEmptyPushes(slice, life, restored);
  return restored;
}

std::string MissingUpdates(const SimulatedDisk::Checkpoint& checkpoint, const Scenario& life) {
  for (const auto& [shard, file] : checkpoint.files) {
    for (const SliceSnapshot& slice : file.snapshot.slices) {
      std::set<std::pair<uint32_t, int64_t>> updates;
      const v1::RestoredSlice restored = UpdatesOf(slice, life);
      for (const v1::RestoredSlice::Update& update : restored.updates()) {
        updates.emplace(update.worker(), update.step());
      }
      for (uint32_t worker = 0; worker < life.job.cluster().num_workers(); ++worker) {
        const int64_t first_step =
            checkpoint.manifest->workers(static_cast<int>(worker)).first_step();
        for (int64_t step = 0; step < first_step; ++step) {
          if (updates.count({worker, step}) > 0) continue;
          return absl::StrCat("slice ", slice.key.slice.value(), " of table ",
                              slice.key.table.value(), " lacks the update of worker ", worker,
                              " at step ", step, ", but the worker goes on at step ", first_step);
        }
      }
    }
  }
  return "";
}

}  // namespace capstan
