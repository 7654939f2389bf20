#include "server/coordinator/members/job_tables.h"

#include <google/protobuf/util/message_differencer.h>

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/codec/table_codecs.h"
#include "common/job/job_properties.h"
#include "common/job/local_steps_check.h"
#include "common/routing/job_view.h"
#include "server/optimizer/table_optimizers.h"

namespace capstan {
namespace {

using google::protobuf::util::MessageDifferencer;

// `expected` is the number of `whose`.
absl::Status CheckSameOwnArrays(uint32_t own_arrays, uint32_t expected, absl::string_view whose) {
  if (own_arrays == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("expected ", expected, " arrays of own state, as ", whose, " has, got ",
                   own_arrays, "; start every worker with the same job and the same program"));
}

std::string Processes(const std::string& processes) {
  return processes.empty() ? "one process" : absl::CEscape(processes);
}

constexpr size_t kMostProcessesBytes = 200;
constexpr char kNoLocalSteps[] = "no local steps";

std::string Describe(const v1::LocalSteps& local_steps) {
  return absl::StrCat("local steps of ", LocalStepsText(local_steps));
}

}  // namespace

absl::Status JobTables::Take(const v1::RegisterWorkerRequest& worker, bool is_first,
                             uint64_t slice_bytes) {
  RETURN_IF_ERROR(CompareWithCheckpoint(worker));
  if (worker.has_local_steps()) {
    RETURN_IF_ERROR(CheckLocalSteps(worker.local_steps(), worker.is_replaceable()));
  }
  if (worker.processes().size() > kMostProcessesBytes) {
    return absl::InvalidArgumentError(absl::StrCat("processes: expected at most ",
                                                   kMostProcessesBytes, " bytes, got ",
                                                   worker.processes().size()));
  }
  if (is_first) RETURN_IF_ERROR(TakeFirst(worker, slice_bytes));
  RETURN_IF_ERROR(CheckSameProcesses(worker.processes()));
  RETURN_IF_ERROR(CheckSameTables(worker.tables(), specs_, "the first worker",
                                  "start every worker with the same job"));
  RETURN_IF_ERROR(CheckSameOwnArrays(worker.own_arrays(), own_arrays_, "the first worker"));
  return CheckSameLocalSteps(worker);
}

absl::Status JobTables::Restore(const v1::JobConstants& constants, uint64_t slice_bytes) {
  if (constants.tables().empty()) return absl::OkStatus();
  v1::RegisterWorkerRequest worker;
  *worker.mutable_tables() = constants.tables();
  worker.set_own_arrays(constants.own_arrays());
  worker.set_processes(constants.processes());
  if (constants.has_local_steps()) *worker.mutable_local_steps() = constants.local_steps();
  return Take(worker, /*is_first=*/true, slice_bytes);
}

absl::Status JobTables::CheckChange(const v1::ConsistencySpec& change) const {
  if (!local_steps_.has_value() || !change.has_mode()) return absl::OkStatus();
  return CheckMomentumOfRounds(change, job_.optimizer(), specs_);
}

absl::Status JobTables::CompareWithCheckpoint(const v1::RegisterWorkerRequest& worker) const {
  if (restored_.is_empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckSameTables(worker.tables(), restored_.manifest.tables(), "the checkpoint",
                                  "go on with the tables and the data of its job"));
  return CheckSameOwnArrays(worker.own_arrays(), restored_.manifest.own_arrays(), "the checkpoint");
}

absl::Status JobTables::CheckSameLocalSteps(const v1::RegisterWorkerRequest& worker) const {
  if (worker.has_local_steps() == local_steps_.has_value() &&
      (!local_steps_.has_value() ||
       MessageDifferencer::Equivalent(worker.local_steps(), *local_steps_))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "this worker has ", worker.has_local_steps() ? Describe(worker.local_steps()) : kNoLocalSteps,
      " where the first worker has ",
      local_steps_.has_value() ? Describe(*local_steps_) : kNoLocalSteps,
      "; start every worker with the same program and the same settings"));
}

absl::Status JobTables::CheckSameProcesses(const std::string& processes) const {
  if (processes == processes_) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "this worker is ", Processes(processes), " where the first worker is ", Processes(processes_),
      "; start every worker as the same number of processes, with the same "
      "parts of the model in each"));
}

absl::Status JobTables::TakeFirst(const v1::RegisterWorkerRequest& worker, uint64_t slice_bytes) {
  ASSIGN_OR_RETURN(elements_, CheckTables(worker.tables(), slice_bytes));
  RETURN_IF_ERROR(
      CheckOwnArrays(worker.own_arrays(), MostPushArrays(job_.codec()), elements_, slice_bytes));
  RETURN_IF_ERROR(CheckTableStaleness(job_.consistency(), worker.tables()));
  RETURN_IF_ERROR(CheckTableCodecs(job_.codec(), worker.tables()));
  for (const v1::TableSpec& table : worker.tables()) {
    RETURN_IF_ERROR(
        CodecsOfTable(job_.codec(), table.name(), ElementCount(table), slice_bytes).status());
  }
  RETURN_IF_ERROR(CheckMeanTables(job_, worker.tables(), slice_bytes));
  RETURN_IF_ERROR(CheckTableOptimizers(job_, worker.tables()));
  RETURN_IF_ERROR(CheckJobOptimizerIsUsed(job_, worker.tables()));
  RETURN_IF_ERROR(CheckSparseTables(job_, worker.tables()));
  if (worker.has_local_steps()) {
    RETURN_IF_ERROR(CheckTablesOfRounds(job_, worker.tables()));
    local_steps_ = worker.local_steps();
  }
  own_arrays_ = worker.own_arrays();
  processes_ = worker.processes();
  specs_ = worker.tables();
  return absl::OkStatus();
}

}  // namespace capstan
