// The functions of capstan.h for jobs, tables and steps. Each checks its arguments, calls ClientJob
// or ProgramEngine, and turns their Status into a capstan_status and a message.
#include "worker/client_api/capstan.h"

#include <glog/logging.h>
#include <unistd.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/printable_text.h"
#include "common/base/program.h"
#include "common/base/status_macros.h"
#include "common/job/job_properties.h"
#include "common/job/optimizer_check.h"
#include "common/transport/grpc/grpc_setup.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"
#include "worker/client_api/convert_floats.h"
#include "worker/client_api/job_access.h"
#include "worker/client_api/last_error.h"
#include "worker/client_api/read_arguments.h"
#include "worker/program/client_job.h"
#include "worker/program/program_engine.h"

namespace capstan {
namespace {

// The table's memory, if it has `count` elements.
template <typename Value>
absl::StatusOr<absl::Span<Value>> SpanOf(absl::Span<const absl::Span<Value>> spans, int32_t table,
                                         size_t count) {
  if (spans.empty()) return absl::FailedPreconditionError("the training has not begun");
  if (table < 0 || static_cast<size_t>(table) >= spans.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("table: expected 0 to ", spans.size() - 1, ", got ", table));
  }
  if (spans[table].size() != count) {
    return absl::InvalidArgumentError(absl::StrCat("count: expected the table's ",
                                                   spans[table].size(), " elements, got ", count));
  }
  return spans[table];
}

// The table's memory; null without such a table.
template <typename Value>
float* MemoryOf(absl::Span<const absl::Span<Value>> spans, int32_t table) {
  if (table < 0 || static_cast<size_t>(table) >= spans.size()) return nullptr;
  return const_cast<float*>(spans[table].data());
}

// Logs of the library: warnings and errors, to standard error. Before the first job.
void SetUpLibrary() {
  static const bool is_set_up = [] {
    FLAGS_logtostderr = true;
    FLAGS_minloglevel = google::GLOG_WARNING;
    SendGrpcLogsToVlog();
    KeepFreedMemory();
    return true;
  }();
  static_cast<void>(is_set_up);
}

}  // namespace
}  // namespace capstan

using capstan::ClientJob;
using capstan::EngineOf;
using capstan::JobOf;
using capstan::LimitOf;
using capstan::ProgramEngine;
using capstan::Return;
using capstan::WithEngine;
using capstan::WithJob;

int32_t capstan_api_version(void) { return CAPSTAN_API_VERSION; }

const char* capstan_version(void) { return capstan::kVersion; }

const char* capstan_last_error(void) { return capstan::LastError(); }

capstan_status capstan_connect(const capstan_connect_options* options, capstan_job** job) {
  return capstan::Guarded([&] {
    // The threads and connections of the library do not exist in a child.
    static const pid_t first_process = getpid();
    if (first_process != getpid()) {
      capstan::SetLastError(
          "the parent process has used the library before it forked; connect in a program of its "
          "own (exec, or multiprocessing's spawn)");
      return CAPSTAN_FORKED;
    }
    if (job == nullptr)
      return Return(absl::InvalidArgumentError("job: expected a place for it, got NULL"));
    absl::StatusOr<ClientJob::Options> read = capstan::ReadConnectOptions(options);
    if (!read.ok()) return Return(read.status());
    capstan::SetUpLibrary();
    absl::StatusOr<std::unique_ptr<ClientJob>> connected = ClientJob::Connect(*std::move(read));
    if (!connected.ok()) return capstan::ReturnFailure(connected.status());
    *job = new capstan_job{*std::move(connected)};
    return CAPSTAN_OK;
  });
}

capstan_status capstan_add_table(capstan_job* job, const capstan_table* table, int32_t* id) {
  return WithJob(job, [&](ClientJob& client) -> absl::Status {
    if (id == nullptr) return absl::InvalidArgumentError("id: expected a place for it, got NULL");
    ASSIGN_OR_RETURN(capstan::GivenTable read, capstan::ReadTable(table));
    ASSIGN_OR_RETURN(
        *id, client.AddTable(std::move(read.spec), std::move(read.initial), read.elsewhere));
    return absl::OkStatus();
  });
}

capstan_status capstan_add_sparse_table(capstan_job* job, const capstan_sparse_table* table,
                                        int32_t* id) {
  return WithJob(job, [&](ClientJob& client) -> absl::Status {
    if (id == nullptr) return absl::InvalidArgumentError("id: expected a place for it, got NULL");
    ASSIGN_OR_RETURN(capstan::v1::TableSpec spec, capstan::ReadSparseTable(table));
    ASSIGN_OR_RETURN(*id, client.AddTable(std::move(spec), {}));
    return absl::OkStatus();
  });
}

capstan_status capstan_set_local_steps(capstan_job* job, const capstan_local_steps* local_steps) {
  return WithJob(job, [&](ClientJob& client) -> absl::Status {
    ASSIGN_OR_RETURN(const capstan::v1::LocalSteps read, capstan::ReadLocalSteps(local_steps));
    return client.SetLocalSteps(read);
  });
}

capstan_status capstan_start(capstan_job* job, int64_t timeout_ms) {
  return WithJob(job, [&](ClientJob& client) { return client.Start(LimitOf(timeout_ms)); });
}

int32_t capstan_rank(const capstan_job* job) {
  const ClientJob* const client = JobOf(job);
  return client == nullptr ? -1 : static_cast<int32_t>(client->rank());
}

uint64_t capstan_incarnation(const capstan_job* job) {
  const ClientJob* const client = JobOf(job);
  return client == nullptr ? 0 : client->incarnation().value();
}

int32_t capstan_num_workers(const capstan_job* job) {
  const ClientJob* const client = JobOf(job);
  return client == nullptr ? -1 : static_cast<int32_t>(client->job().cluster().num_workers());
}

int64_t capstan_step(const capstan_job* job) {
  const ProgramEngine* const engine = EngineOf(job);
  return engine == nullptr ? -1 : engine->steps().current().value();
}

int64_t capstan_steps_of_job(const capstan_job* job) {
  const ClientJob* const client = JobOf(job);
  return client == nullptr ? -1 : static_cast<int64_t>(client->job().training().steps());
}

int32_t capstan_keeps_values(const capstan_job* job) {
  const ClientJob* const client = JobOf(job);
  if (client == nullptr) return -1;
  const bool is_bsp = client->job().consistency().mode() == capstan::v1::ConsistencySpec::BSP;
  return is_bsp && !capstan::HasAutoCodec(client->job().codec()) ? 1 : 0;
}

float* capstan_values(capstan_job* job, int32_t table) {
  const ProgramEngine* const engine = EngineOf(job);
  return engine == nullptr ? nullptr : capstan::MemoryOf(engine->values(), table);
}

float* capstan_gradient(capstan_job* job, int32_t table) {
  const ProgramEngine* const engine = EngineOf(job);
  return engine == nullptr ? nullptr : capstan::MemoryOf(engine->gradients(), table);
}

capstan_status capstan_read_values(capstan_job* job, int32_t table, void* values, size_t count,
                                   int32_t dtype) {
  return WithEngine(job, [&](ProgramEngine& engine) -> absl::Status {
    ASSIGN_OR_RETURN(const absl::Span<const float> from,
                     capstan::SpanOf(engine.values(), table, count));
    return capstan::FromFloats(from, dtype, values);
  });
}

capstan_status capstan_write_gradient(capstan_job* job, int32_t table, const void* gradient,
                                      size_t count, int32_t dtype) {
  return WithEngine(job, [&](ProgramEngine& engine) -> absl::Status {
    ASSIGN_OR_RETURN(const absl::Span<float> to, capstan::SpanOf(engine.gradients(), table, count));
    return capstan::ToFloats(gradient, dtype, to);
  });
}

capstan_status capstan_wait(capstan_job* job, int32_t layer, int64_t timeout_ms) {
  return WithEngine(job,
                    [&](ProgramEngine& engine) { return engine.Wait(layer, LimitOf(timeout_ms)); });
}

capstan_status capstan_push(capstan_job* job, int32_t layer, int64_t timeout_ms) {
  return WithEngine(job,
                    [&](ProgramEngine& engine) { return engine.Push(layer, LimitOf(timeout_ms)); });
}

capstan_status capstan_push_nothing(capstan_job* job, int32_t layer, int64_t timeout_ms) {
  return WithEngine(
      job, [&](ProgramEngine& engine) { return engine.PushNothing(layer, LimitOf(timeout_ms)); });
}

int64_t capstan_updates(capstan_job* job, int32_t table) {
  ProgramEngine* const engine = EngineOf(job);
  if (engine == nullptr || table < 0) return -1;
  return engine->UpdatesOf(capstan::TableId(static_cast<uint32_t>(table)));
}

capstan_status capstan_pull_rows(capstan_job* job, int32_t table, const uint64_t* keys,
                                 size_t count, int64_t timeout_ms) {
  return WithEngine(job, [&](ProgramEngine& engine) -> absl::Status {
    ASSIGN_OR_RETURN(const capstan::TableId id, capstan::IdOf(table));
    ASSIGN_OR_RETURN(const auto keys_of_rows, capstan::ItemsAt(keys, count, "keys"));
    return engine.rows().Pull(id, keys_of_rows, LimitOf(timeout_ms));
  });
}

capstan_status capstan_read_rows(capstan_job* job, int32_t table, float* rows, size_t count,
                                 int64_t timeout_ms) {
  return WithEngine(job, [&](ProgramEngine& engine) -> absl::Status {
    ASSIGN_OR_RETURN(const capstan::TableId id, capstan::IdOf(table));
    ASSIGN_OR_RETURN(const auto values, capstan::ItemsAt(rows, count, "rows"));
    return engine.rows().Read(id, values, LimitOf(timeout_ms));
  });
}

capstan_status capstan_push_rows(capstan_job* job, int32_t table, const uint64_t* keys,
                                 size_t count, const float* gradients, const uint64_t* next_keys,
                                 size_t next_count, int64_t timeout_ms) {
  return WithEngine(job, [&](ProgramEngine& engine) -> absl::Status {
    ASSIGN_OR_RETURN(const capstan::TableId id, capstan::IdOf(table));
    ASSIGN_OR_RETURN(const auto keys_of_rows, capstan::ItemsAt(keys, count, "keys"));
    ASSIGN_OR_RETURN(const auto next, capstan::ItemsAt(next_keys, next_count, "next_keys"));
    ASSIGN_OR_RETURN(const size_t dim, engine.rows().DimOf(id));
    if (count > SIZE_MAX / dim)
      return absl::InvalidArgumentError(absl::StrCat("count: got ", count, " keys"));
    ASSIGN_OR_RETURN(const auto values, capstan::ItemsAt(gradients, count * dim, "gradients"));
    return engine.rows().Push(id, keys_of_rows, values, next, LimitOf(timeout_ms));
  });
}

capstan_status capstan_set_learning_rate(capstan_job* job, int32_t table, double learning_rate) {
  return WithEngine(job, [&](ProgramEngine& engine) -> absl::Status {
    constexpr double kLargest = std::numeric_limits<float>::max();
    if (!(learning_rate >= 0 && learning_rate <= kLargest)) {
      return absl::InvalidArgumentError(absl::StrCat("learning_rate: expected a number from 0 to ",
                                                     kLargest, ", got ", learning_rate));
    }
    if (table < 0) return engine.SetLearningRate(std::nullopt, learning_rate);
    return engine.SetLearningRate(capstan::TableId(static_cast<uint32_t>(table)), learning_rate);
  });
}

capstan_status capstan_set_momentum(capstan_job* job, int32_t table, double momentum) {
  return WithEngine(job, [&](ProgramEngine& engine) -> absl::Status {
    RETURN_IF_ERROR(capstan::CheckFraction("momentum", momentum));
    if (table < 0) return engine.SetMomentum(std::nullopt, momentum);
    return engine.SetMomentum(capstan::TableId(static_cast<uint32_t>(table)), momentum);
  });
}

capstan_status capstan_note_round(capstan_job* job, int64_t local_steps, double drift) {
  return WithEngine(job,
                    [&](ProgramEngine& engine) { return engine.NoteRound(local_steps, drift); });
}

capstan_status capstan_end_step(capstan_job* job, double loss, uint64_t samples,
                                int64_t timeout_ms) {
  const bool is_known = std::isfinite(loss);
  return WithEngine(job, [&](ProgramEngine& engine) {
    return engine.EndStep(is_known ? loss : 0, is_known ? samples : 0, LimitOf(timeout_ms));
  });
}

capstan_status capstan_finish(capstan_job* job, int32_t* is_evaluator, int64_t timeout_ms) {
  return WithEngine(job, [&](ProgramEngine& engine) -> absl::Status {
    if (is_evaluator == nullptr) {
      return absl::InvalidArgumentError("is_evaluator: expected a place for it, got NULL");
    }
    RETURN_IF_ERROR(engine.End());
    ASSIGN_OR_RETURN(const bool evaluates, engine.steps().AwaitEvaluation(LimitOf(timeout_ms)));
    *is_evaluator = evaluates ? 1 : 0;
    return absl::OkStatus();
  });
}

capstan_status capstan_report(capstan_job* job, double test_accuracy, double test_loss,
                              uint64_t samples, int64_t timeout_ms) {
  return WithEngine(job, [&](ProgramEngine& engine) -> absl::Status {
    if (test_accuracy < 0 || test_accuracy > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("test_accuracy: expected 0 to 1, or NaN, got ", test_accuracy));
    }
    capstan::v1::ReportResultRequest result;
    result.set_has_no_accuracy(!std::isfinite(test_accuracy));
    result.set_has_no_loss(!std::isfinite(test_loss));
    if (!result.has_no_accuracy()) result.set_test_accuracy(test_accuracy);
    if (!result.has_no_loss()) result.set_test_loss(test_loss);
    result.set_test_samples(samples);
    return engine.steps().Report(result, LimitOf(timeout_ms));
  });
}

capstan_status capstan_leave(capstan_job* job) {
  return WithJob(job, [](ClientJob& client) { return client.Leave(); });
}

capstan_status capstan_fail(capstan_job* job, const char* reason) {
  return WithJob(job, [&](ClientJob& client) {
    const bool is_given = reason != nullptr && *reason != 0;
    client.Fail(is_given ? capstan::PrintableText(reason) : "the program gave no reason");
    return absl::OkStatus();
  });
}

void capstan_close(capstan_job* job) {
  if (JobOf(job) == nullptr) return;
  capstan::Guarded([&] {
    ClientJob::Close(std::move(job->job));
    delete job;
    return CAPSTAN_OK;
  });
}
