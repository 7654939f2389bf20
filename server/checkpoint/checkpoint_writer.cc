#include "server/checkpoint/checkpoint_writer.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/printable_text.h"

namespace capstan {
namespace {

// If cores are short, threads that train go before this one. Nothing is lost if the system refuses.
void GiveWay() {
  constexpr int kLowestPriority = 19;
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kLowestPriority);
}

}  // namespace

void CheckpointWriter::RunLast(absl::FunctionRef<void()> work) const {
  if (options_.spawn != nullptr) return work();
  std::thread([work] {
    GiveWay();
    work();
  }).join();
}

CheckpointWriter::CheckpointWriter(Options options) : options_(std::move(options)) {
  if (options_.spawn != nullptr) {
    options_.spawn([this] { Run(); });
  } else {
    thread_ = std::thread([this] { Run(); });
  }
}

CheckpointWriter::~CheckpointWriter() { Stop(); }

void CheckpointWriter::Stop() {
  {
    MutexLock lock(&mu_);
    is_stopping_ = true;
    changed_.NotifyAll();
    while (is_running_) options_.clock->WaitUntil(mu_, changed_, absl::InfiniteFuture());
  }
  if (thread_.joinable()) thread_.join();
  // Shards keep rows for cuts as long as they are here.
  MutexLock lock(&mu_);
  work_.snapshots.clear();
}

void CheckpointWriter::Begin(uint64_t number, const std::string& name, size_t shards) {
  MutexLock lock(&mu_);
  work_ = Work();
  work_.number = number;
  work_.name = name;
  work_.missing = shards;
  part_.Clear();
  part_.set_number(number);
  changed_.NotifyAll();
}

void CheckpointWriter::Add(uint64_t number, ShardSnapshot snapshot) {
  MutexLock lock(&mu_);
  if (is_stopping_ || number != work_.number || part_.has_ended()) return;
  for (const SliceSnapshot& slice : snapshot.slices) {
    if (slice.without_own.empty()) continue;
    work_.error =
        absl::AbortedError(absl::StrCat("worker ", slice.without_own.front().value(),
                                        " was lost before its own state for the checkpoint came"));
  }
  NoteSteps(snapshot, work_.steps, work_.end_step);
  --work_.missing;
  work_.snapshots.push_back(std::move(snapshot));
  changed_.NotifyAll();
}

v1::CheckpointPart CheckpointWriter::part() const {
  MutexLock lock(&mu_);
  return part_;
}

bool CheckpointWriter::HasWorkLocked() const {
  if (work_.number == 0 || part_.has_ended()) return false;
  return !work_.snapshots.empty() || work_.missing == 0;
}

void CheckpointWriter::Run() {
  while (true) {
    {
      MutexLock lock(&mu_);
      while (!is_stopping_ && !HasWorkLocked()) {
        options_.clock->WaitUntil(mu_, changed_, absl::InfiniteFuture());
      }
      if (is_stopping_) {
        is_running_ = false;
        changed_.NotifyAll();
        return;
      }
    }
    DoWork();
  }
}

void CheckpointWriter::DoWork() {
  ShardSnapshot snapshot;
  uint64_t number = 0;
  std::string name;
  std::vector<v1::ShardFile> files;
  bool is_finishing = false;
  absl::Status error;
  {
    MutexLock lock(&mu_);
    if (!HasWorkLocked()) return;
    number = work_.number;
    error = work_.error;
    name = work_.name;
    is_finishing = work_.snapshots.empty();
    if (is_finishing) {
      files = work_.files;
    } else {
      snapshot = std::move(work_.snapshots.back());
      work_.snapshots.pop_back();
    }
  }
  if (!error.ok()) return EndPart(number, error);
  if (is_finishing) {
    RunLast([&] { error = options_.storage->Finish(name, files); });
    return EndPart(number, error);
  }
  // Threads that train wait for the lock under which this copies.
  if (error = CopyRows(snapshot); !error.ok()) return EndPart(number, error);
  absl::StatusOr<v1::ShardFile> file;
  RunLast([&] {
    SortRows(snapshot);
    file = options_.storage->Write(name, snapshot);
    snapshot = {};
  });
  if (!file.ok()) return EndPart(number, file.status());
  MutexLock lock(&mu_);
  if (number == work_.number) work_.files.push_back(*file);
}

void CheckpointWriter::EndPart(uint64_t number, const absl::Status& status) {
  {
    MutexLock lock(&mu_);
    if (number != work_.number) return;
    part_.set_has_ended(true);
    part_.set_error(CutText(status.message()));
    part_.mutable_files()->Assign(work_.files.begin(), work_.files.end());
    for (const auto& [worker, steps] : work_.steps) *part_.add_workers() = steps;
    part_.set_end_step(work_.end_step.value());
    work_ = Work();
  }
  options_.on_end();
}

void NoteSteps(const ShardSnapshot& snapshot, std::map<WorkerId, v1::WorkerSteps>& steps,
               Step& end_step) {
  std::set<WorkerId> entering;
  for (const ShardWorker& worker : snapshot.workers) {
    if (worker.is_entering) entering.insert(worker.worker);
  }
  for (const SliceSnapshot& slice : snapshot.slices) {
    end_step = std::max(end_step, slice.min_step);
    for (const StepVector::Entry& entry : slice.workers) {
      const int64_t completed = entry.completed.value();
      const int64_t next = std::max(entry.completed, slice.min_step).value();
      const auto [known, is_new] = steps.try_emplace(entry.worker);
      v1::WorkerSteps& worker = known->second;
      worker.set_worker(entry.worker.value());
      worker.set_least(is_new ? completed : std::min(worker.least(), completed));
      worker.set_most(std::max(worker.most(), next));
      const bool is_live = entry.is_live && entering.count(entry.worker) == 0;
      worker.set_is_live(is_live && (is_new || worker.is_live()));
      end_step = std::max(end_step, entry.completed);
    }
  }
}

}  // namespace capstan
