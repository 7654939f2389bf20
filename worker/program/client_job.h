#ifndef WORKER_PROGRAM_CLIENT_JOB_H_
#define WORKER_PROGRAM_CLIENT_JOB_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/end_request.h"
#include "common/base/mutex.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"
#include "worker/program/program_engine.h"
#include "worker/runtime/worker_process.h"

namespace capstan {

// A user's program as a worker of a job: what is behind a capstan_job. A thread of its own runs the
// worker; the program computes its steps through engine(). Thread-safe.
class ClientJob {
 public:
  struct Options {
    WorkerProcess::Options process;  // its `end` and `on_registered` are set here
    int64_t steps = 0;               // of each worker; 0: the job's, or not known
    bool is_replaceable = false;     // as Engine::is_replaceable
    std::string device;              // for people
  };

  // Reads the job. FAILED_PRECONDITION: it is not one for programs.
  static absl::StatusOr<std::unique_ptr<ClientJob>> Connect(Options options);
  // Fails the job if the program has not ended its steps, and waits some seconds for the worker's
  // end. A worker that reaches nobody may take longer, and keeps its memory.
  static void Close(std::unique_ptr<ClientJob> closed);

  // Adds the next table, and returns its number; another process of the worker exchanges it if it
  // is `elsewhere`. `initial` is empty if this worker has no initial
  // values for it. FAILED_PRECONDITION after Start. INVALID_ARGUMENT: there is a table of this
  // name, or the coordinator would refuse this one.
  absl::StatusOr<int32_t> AddTable(v1::TableSpec table, std::vector<float> initial,
                                   bool elsewhere = false);
  // Each step is a round of these. FAILED_PRECONDITION after Start. INVALID_ARGUMENT: a field, or
  // the program is replaceable.
  absl::Status SetLocalSteps(const v1::LocalSteps& local_steps);
  // The number of arrays of the table's optimizer; -1: there is no such table.
  int32_t OptimizerArraysOf(int64_t table) const;
  // ProgramOptimizerState::Load, before Start as well.
  absl::Status LoadOptimizerState(ProgramOptimizerState::Loaded loaded, absl::Duration limit);
  // Begins the worker on the first call, and waits until its first step. As ProgramEngine.
  absl::Status Start(absl::Duration limit);

  // Null before Start. Lives as long as the job.
  ProgramEngine* engine() const {
    MutexLock lock(&mu_);
    return engine_.get();
  }
  const v1::JobSpec& job() const { return job_; }
  int64_t rank() const { return rank_; }  // below 0: not known yet
  Incarnation incarnation() const { return process_->incarnation(); }

  // Leaves the job between two steps. FAILED_PRECONDITION before Start, and when the worker is
  // over.
  absl::Status Leave();
  // The job fails with this reason.
  void Fail(const std::string& reason);

 private:
  explicit ClientJob(Options options);

  absl::Status ReadJob();
  absl::Status CheckTables() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status BeginLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // On the worker's thread.
  void Run(const std::shared_ptr<ProgramEngine>& engine);

  Options options_;
  EndRequest end_;
  std::atomic<bool> is_closing_ = false;  // the program does not wait for a coordinator any more
  std::atomic<int64_t> rank_ = -1;
  std::unique_ptr<WorkerProcess> process_;
  v1::JobSpec job_;

  mutable Mutex mu_;
  std::vector<v1::TableSpec> tables_ ABSL_GUARDED_BY(mu_);
  std::set<std::string> table_names_ ABSL_GUARDED_BY(mu_);
  std::vector<std::vector<float>> initial_ ABSL_GUARDED_BY(mu_);
  std::vector<bool> elsewhere_ ABSL_GUARDED_BY(mu_);
  std::optional<v1::LocalSteps> local_steps_ ABSL_GUARDED_BY(mu_);
  std::vector<ProgramOptimizerState::Loaded> loaded_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<ProgramEngine> engine_ ABSL_GUARDED_BY(mu_);
  std::thread thread_ ABSL_GUARDED_BY(mu_);
};

}  // namespace capstan

#endif  // WORKER_PROGRAM_CLIENT_JOB_H_
