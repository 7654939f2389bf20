// The functions of capstan.h. Each checks its arguments, calls ClientJob or ProgramEngine, and
// turns their Status into a capstan_status and a message.
#include "worker/client_api/capstan.h"

#include <glog/logging.h>
#include <unistd.h>

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/cpu_name.h"
#include "common/base/host_port.h"
#include "common/base/printable_text.h"
#include "common/base/program.h"
#include "common/base/status_macros.h"
#include "common/transport/grpc/grpc_setup.h"
#include "proto/coordinator_service.pb.h"
#include "proto/job.pb.h"
#include "worker/client_api/client_job.h"
#include "worker/client_api/convert_floats.h"
#include "worker/client_api/program_engine.h"
#include "worker/client_api/read_struct.h"

struct capstan_job {
  std::unique_ptr<capstan::ClientJob> job;
  const pid_t process = getpid();
};

namespace capstan {
namespace {

constexpr char kOutOfMemory[] =
    "there is not enough memory for the call; free some and call again, or close the job";

thread_local std::string last_message;
thread_local const char* last_error = "";  // last_message, or a constant

// For capstan_last_error. Throws nothing.
void SetLastError(absl::string_view message) {
  try {
    last_message.assign(message.data(), message.size());
    last_error = last_message.c_str();
  } catch (const std::bad_alloc&) {
    last_error = kOutOfMemory;
  }
}

capstan_status CodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return CAPSTAN_OK;
    case absl::StatusCode::kDeadlineExceeded:
      return CAPSTAN_TIMEOUT;
    case absl::StatusCode::kInvalidArgument:
      return CAPSTAN_INVALID_ARGUMENT;
    case absl::StatusCode::kFailedPrecondition:
      return CAPSTAN_WRONG_ORDER;
    case absl::StatusCode::kCancelled:
      return CAPSTAN_LEFT;
    case absl::StatusCode::kResourceExhausted:
      return CAPSTAN_OUT_OF_MEMORY;
    default:
      return CAPSTAN_FAILED;
  }
}

capstan_status Return(const absl::Status& status) {
  if (!status.ok()) SetLastError(status.message());
  return CodeOf(status);
}

// What ClientJob::Connect returns is about the job, whatever its code.
capstan_status ReturnFailure(const absl::Status& status) {
  const capstan_status code = Return(status);
  const bool is_kept = code == CAPSTAN_OK || code == CAPSTAN_OUT_OF_MEMORY;
  return is_kept ? code : CAPSTAN_FAILED;
}

capstan_status Forked() {
  SetLastError("this job belongs to the parent process; a child cannot use it");
  return CAPSTAN_FORKED;
}

absl::Status BadArgument(absl::string_view what) { return absl::InvalidArgumentError(what); }

absl::Duration LimitOf(int64_t timeout_ms) {
  return timeout_ms < 0 ? absl::InfiniteDuration() : absl::Milliseconds(timeout_ms);
}

std::string TextOf(const char* text, const char* variable = nullptr) {
  if (text != nullptr) return text;
  const char* const value = variable == nullptr ? nullptr : std::getenv(variable);
  return value == nullptr ? "" : value;
}

absl::StatusOr<std::optional<uint32_t>> RankOf(const capstan_connect_options& options) {
  if (options.has_rank != 0) {
    if (options.rank < 0)
      return BadArgument(absl::StrCat("rank: expected 0 or more, got ", options.rank));
    return static_cast<uint32_t>(options.rank);
  }
  const std::string text = TextOf(nullptr, "RANK");
  if (text.empty()) return std::nullopt;
  uint32_t rank = 0;
  if (!absl::SimpleAtoi(text, &rank)) {
    return BadArgument(absl::StrCat("RANK: expected a number, 0 or more, got \"", text, "\""));
  }
  return rank;
}

// A callback of UCX's thread, which cannot go on: neither can the process.
void EndProcess(const absl::Status& status) { EndProgram("capstan", status); }

// With its kind in parentheses. Only the program knows more than the CPU.
std::string DeviceOf(const char* given) {
  const std::string device = given == nullptr ? "program" : PrintableText(given);
  if (device.find('(') != device.npos) return device;
  return absl::StrCat(device, " (CPU ", CpuName(), ")");
}

absl::StatusOr<ClientJob::Options> OptionsOf(const capstan_connect_options& given) {
  ClientJob::Options options;
  WorkerProcess::Options& process = options.process;
  process.coordinator = TextOf(given.coordinator, "CAPSTAN_COORDINATOR");
  if (process.coordinator.empty()) {
    return BadArgument(
        "coordinator: expected HOST:PORT, got nothing; name it, or start the program by capstan "
        "run --worker_command");
  }
  const bool is_given = given.coordinator != nullptr && *given.coordinator != 0;
  RETURN_IF_ERROR(
      ParseHostPort(is_given ? "coordinator" : "CAPSTAN_COORDINATOR", process.coordinator)
          .status());
  process.keys = TextOf(given.keys, "CAPSTAN_KEYS");
  process.insecure = given.insecure != 0;
  ASSIGN_OR_RETURN(process.rank, RankOf(given));
  if (given.steps < 0)
    return BadArgument(absl::StrCat("steps: expected 0 or more, got ", given.steps));
  options.steps = given.steps;
  if (!(given.rpc_deadline_seconds >= 0)) {
    return BadArgument("rpc_deadline_seconds: expected 0 or more");
  }
  if (given.rpc_deadline_seconds > 0) {
    process.rpc_deadline = absl::Seconds(given.rpc_deadline_seconds);
  }
  options.device = DeviceOf(given.device);
  process.trace = TextOf(given.trace);
  process.record_history = TextOf(given.record_history);
  process.metrics_listen = TextOf(given.metrics_listen);
  process.health_listen = TextOf(given.health_listen);
  process.on_ucx_blocked = &EndProcess;
  return options;
}

absl::StatusOr<v1::OptimizerSpec::Type> OptimizerTypeOf(int32_t type) {
  if (v1::OptimizerSpec::Type_IsValid(type) && type != v1::OptimizerSpec::TYPE_UNSPECIFIED) {
    return static_cast<v1::OptimizerSpec::Type>(type);
  }
  return BadArgument(absl::StrCat("optimizer: expected a capstan_optimizer_type, got ", type));
}

absl::Status SetOptimizer(const capstan_optimizer& given, v1::TableSpec& table) {
  v1::OptimizerSpec& optimizer = *table.mutable_optimizer();
  ASSIGN_OR_RETURN(const v1::OptimizerSpec::Type type, OptimizerTypeOf(given.type));
  optimizer.set_type(type);
  optimizer.set_learning_rate(given.learning_rate);
  optimizer.set_momentum(given.momentum);
  optimizer.set_beta1(given.beta1);
  optimizer.set_beta2(given.beta2);
  optimizer.set_epsilon(given.epsilon);
  optimizer.set_weight_decay(given.weight_decay);
  return absl::OkStatus();
}

// The most elements of a table: 2^40.
constexpr uint64_t kMostElements = uint64_t{1} << 40;

absl::StatusOr<uint64_t> SetShape(const capstan_table& given, v1::TableSpec& table) {
  if (given.dimensions > 0 && given.shape == nullptr) return BadArgument("shape: expected sizes");
  uint64_t elements = 1;
  for (size_t i = 0; i < given.dimensions; ++i) {
    const uint64_t size = given.shape[i];
    if (size == 0 || size > kMostElements / elements) {
      return BadArgument(absl::StrCat("shape of table ", table.name(),
                                      ": expected sizes of 1 or more with at most 2^40 elements"));
    }
    elements *= size;
    table.add_shape(size);
  }
  if (given.dimensions == 0) table.add_shape(1);
  return elements;
}

absl::Status SetNameAndLayer(const char* name, int32_t layer, v1::TableSpec& table) {
  if (name == nullptr || *name == 0 || PrintableText(name) != name)
    return BadArgument("name: expected a table's name, in printable characters");
  table.set_name(name);
  if (layer < 0) return BadArgument(absl::StrCat("layer: expected 0 or more, got ", layer));
  table.set_layer(static_cast<uint32_t>(layer));
  return absl::OkStatus();
}

absl::StatusOr<v1::TableSpec> TableOf(const capstan_table& given, std::vector<float>& initial) {
  v1::TableSpec table;
  RETURN_IF_ERROR(SetNameAndLayer(given.name, given.layer, table));
  ASSIGN_OR_RETURN(const uint64_t elements, SetShape(given, table));
  if (given.optimizer != nullptr) RETURN_IF_ERROR(SetOptimizer(*given.optimizer, table));
  table.set_initial_from_worker(given.initial_from_worker != 0);
  if (given.initial_from_worker == 0) {
    table.set_initial_stddev(given.initial_stddev);
  } else if (given.initial != nullptr) {
    initial.resize(elements);
    RETURN_IF_ERROR(ToFloats(given.initial, given.initial_dtype, absl::MakeSpan(initial)));
  }
  return table;
}

absl::Status SetRowOptimizer(const capstan_row_optimizer& given, v1::TableSpec& table) {
  v1::OptimizerSpec& optimizer = *table.mutable_optimizer();
  ASSIGN_OR_RETURN(const v1::OptimizerSpec::Type type, OptimizerTypeOf(given.type));
  optimizer.set_type(type);
  optimizer.set_learning_rate(given.learning_rate);
  optimizer.set_epsilon(given.epsilon);
  optimizer.set_beta1(given.beta1);
  optimizer.set_beta2(given.beta2);
  optimizer.set_beta(given.beta);
  optimizer.set_l1(given.l1);
  optimizer.set_l2(given.l2);
  return absl::OkStatus();
}

absl::StatusOr<v1::TableSpec> SparseTableOf(const capstan_sparse_table& given) {
  v1::TableSpec table;
  RETURN_IF_ERROR(SetNameAndLayer(given.name, given.layer, table));
  v1::SparseTable& sparse = *table.mutable_sparse();
  sparse.set_dim(given.dim);
  sparse.set_admitting_push(given.admitting_push);
  sparse.set_max_idle_steps(given.max_idle_steps);
  sparse.set_max_rows(given.max_rows);
  table.set_initial_stddev(given.initial_stddev);
  if (given.optimizer == nullptr) return table;
  ASSIGN_OR_RETURN(
      const capstan_row_optimizer optimizer,
      ReadStruct(given.optimizer, &capstan_row_optimizer::l2, "capstan_row_optimizer"));
  RETURN_IF_ERROR(SetRowOptimizer(optimizer, table));
  return table;
}

absl::StatusOr<TableId> IdOf(int32_t table) {
  if (table >= 0) return TableId(static_cast<uint32_t>(table));
  return BadArgument(absl::StrCat("table: expected a sparse one, got ", table));
}

// `count` items at `items`. INVALID_ARGUMENT: there are some, and no items.
template <typename Item>
absl::StatusOr<absl::Span<Item>> ItemsAt(Item* items, size_t count, const char* name) {
  if (items == nullptr && count > 0) {
    return BadArgument(absl::StrCat(name, ": expected ", count, " of them, got NULL"));
  }
  return absl::Span<Item>(items, count);
}

// The table's memory, if it has `count` elements.
template <typename Value>
absl::StatusOr<absl::Span<Value>> SpanOf(absl::Span<const absl::Span<Value>> spans, int32_t table,
                                         size_t count) {
  if (spans.empty()) return absl::FailedPreconditionError("the training has not begun");
  if (table < 0 || static_cast<size_t>(table) >= spans.size()) {
    return BadArgument(absl::StrCat("table: expected 0 to ", spans.size() - 1, ", got ", table));
  }
  if (spans[table].size() != count) {
    return BadArgument(absl::StrCat("count: expected the table's ", spans[table].size(),
                                    " elements, got ", count));
  }
  return spans[table];
}

// The table's memory; null without such a table.
template <typename Value>
float* MemoryOf(absl::Span<const absl::Span<Value>> spans, int32_t table) {
  if (table < 0 || static_cast<size_t>(table) >= spans.size()) return nullptr;
  return const_cast<float*>(spans[table].data());
}

// Calls `call`, which returns a capstan_status. No exception gets into the program.
template <typename Call>
capstan_status Guarded(Call call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    last_error = kOutOfMemory;
    return CAPSTAN_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    SetLastError(error.what());
    return CAPSTAN_FAILED;
  }
}

// A child must not touch the job: a lock that another thread held at the fork stays locked there.
bool IsForked(const capstan_job& job) { return job.process != getpid(); }

// Null: there is no job, or it is the parent process's.
ClientJob* JobOf(const capstan_job* job) {
  return job == nullptr || IsForked(*job) ? nullptr : job->job.get();
}

// Null also before capstan_start.
ProgramEngine* EngineOf(const capstan_job* job) {
  const ClientJob* const client = JobOf(job);
  return client == nullptr ? nullptr : client->engine();
}

// Calls `use`, which returns a Status, with the job.
template <typename Use>
capstan_status WithJob(capstan_job* job, Use use) {
  return Guarded([&] {
    if (job == nullptr) return Return(BadArgument("job: expected a job, got NULL"));
    if (IsForked(*job)) return Forked();
    return Return(use(*job->job));
  });
}

// Calls `use`, which returns a Status, with the engine of `job`.
template <typename Use>
capstan_status WithEngine(capstan_job* job, Use use) {
  return WithJob(job, [&](ClientJob& client) -> absl::Status {
    if (ProgramEngine* const engine = client.engine()) return use(*engine);
    return absl::FailedPreconditionError(
        "the job has not started: call capstan_start (in Python job.start()) before this");
  });
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

using capstan::BadArgument;
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

const char* capstan_last_error(void) { return capstan::last_error; }

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
    if (job == nullptr) return Return(BadArgument("job: expected a place for it, got NULL"));
    absl::StatusOr<capstan_connect_options> given = capstan_connect_options();
    if (options != nullptr) {
      given = capstan::ReadStruct(options, &capstan_connect_options::health_listen,
                                  "capstan_connect_options");
    }
    if (!given.ok()) return Return(given.status());
    absl::StatusOr<ClientJob::Options> read = capstan::OptionsOf(*given);
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
    if (id == nullptr) return BadArgument("id: expected a place for it, got NULL");
    ASSIGN_OR_RETURN(const capstan_table given,
                     capstan::ReadStruct(table, &capstan_table::initial_stddev, "capstan_table"));
    std::vector<float> initial;
    ASSIGN_OR_RETURN(capstan::v1::TableSpec spec, capstan::TableOf(given, initial));
    ASSIGN_OR_RETURN(*id, client.AddTable(std::move(spec), std::move(initial)));
    return absl::OkStatus();
  });
}

capstan_status capstan_add_sparse_table(capstan_job* job, const capstan_sparse_table* table,
                                        int32_t* id) {
  return WithJob(job, [&](ClientJob& client) -> absl::Status {
    if (id == nullptr) return BadArgument("id: expected a place for it, got NULL");
    ASSIGN_OR_RETURN(
        const capstan_sparse_table given,
        capstan::ReadStruct(table, &capstan_sparse_table::max_rows, "capstan_sparse_table"));
    ASSIGN_OR_RETURN(capstan::v1::TableSpec spec, capstan::SparseTableOf(given));
    ASSIGN_OR_RETURN(*id, client.AddTable(std::move(spec), {}));
    return absl::OkStatus();
  });
}

capstan_status capstan_start(capstan_job* job, int64_t timeout_ms) {
  return WithJob(job, [&](ClientJob& client) { return client.Start(LimitOf(timeout_ms)); });
}

int32_t capstan_rank(const capstan_job* job) {
  const ClientJob* const client = JobOf(job);
  return client == nullptr ? -1 : static_cast<int32_t>(client->rank());
}

int32_t capstan_num_workers(const capstan_job* job) {
  const ClientJob* const client = JobOf(job);
  return client == nullptr ? -1 : static_cast<int32_t>(client->job().cluster().num_workers());
}

int64_t capstan_step(const capstan_job* job) {
  const ProgramEngine* const engine = EngineOf(job);
  return engine == nullptr ? -1 : engine->step().value();
}

int64_t capstan_steps_of_job(const capstan_job* job) {
  const ClientJob* const client = JobOf(job);
  return client == nullptr ? -1 : static_cast<int64_t>(client->job().training().steps());
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

capstan_status capstan_pull_rows(capstan_job* job, int32_t table, const uint64_t* keys,
                                 size_t count, int64_t timeout_ms) {
  return WithEngine(job, [&](ProgramEngine& engine) -> absl::Status {
    ASSIGN_OR_RETURN(const capstan::TableId id, capstan::IdOf(table));
    ASSIGN_OR_RETURN(const auto keys_of_rows, capstan::ItemsAt(keys, count, "keys"));
    return engine.PullRows(id, keys_of_rows, LimitOf(timeout_ms));
  });
}

capstan_status capstan_read_rows(capstan_job* job, int32_t table, float* rows, size_t count,
                                 int64_t timeout_ms) {
  return WithEngine(job, [&](ProgramEngine& engine) -> absl::Status {
    ASSIGN_OR_RETURN(const capstan::TableId id, capstan::IdOf(table));
    ASSIGN_OR_RETURN(const auto values, capstan::ItemsAt(rows, count, "rows"));
    return engine.ReadRows(id, values, LimitOf(timeout_ms));
  });
}

capstan_status capstan_push_rows(capstan_job* job, int32_t table, const uint64_t* keys,
                                 size_t count, const float* gradients, const uint64_t* next_keys,
                                 size_t next_count, int64_t timeout_ms) {
  return WithEngine(job, [&](ProgramEngine& engine) -> absl::Status {
    ASSIGN_OR_RETURN(const capstan::TableId id, capstan::IdOf(table));
    ASSIGN_OR_RETURN(const auto keys_of_rows, capstan::ItemsAt(keys, count, "keys"));
    ASSIGN_OR_RETURN(const auto next, capstan::ItemsAt(next_keys, next_count, "next_keys"));
    ASSIGN_OR_RETURN(const size_t dim, engine.DimOf(id));
    if (count > SIZE_MAX / dim) return BadArgument(absl::StrCat("count: got ", count, " keys"));
    ASSIGN_OR_RETURN(const auto values, capstan::ItemsAt(gradients, count * dim, "gradients"));
    return engine.PushRows(id, keys_of_rows, values, next, LimitOf(timeout_ms));
  });
}

capstan_status capstan_set_learning_rate(capstan_job* job, int32_t table, double learning_rate) {
  return WithEngine(job, [&](ProgramEngine& engine) -> absl::Status {
    constexpr double kLargest = std::numeric_limits<float>::max();
    if (!(learning_rate >= 0 && learning_rate <= kLargest)) {
      return BadArgument(absl::StrCat("learning_rate: expected a number from 0 to ", kLargest,
                                      ", got ", learning_rate));
    }
    if (table < 0) return engine.SetLearningRate(std::nullopt, learning_rate);
    return engine.SetLearningRate(capstan::TableId(static_cast<uint32_t>(table)), learning_rate);
  });
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
      return BadArgument("is_evaluator: expected a place for it, got NULL");
    }
    RETURN_IF_ERROR(engine.End());
    ASSIGN_OR_RETURN(const bool evaluates, engine.AwaitEvaluation(LimitOf(timeout_ms)));
    *is_evaluator = evaluates ? 1 : 0;
    return absl::OkStatus();
  });
}

capstan_status capstan_report(capstan_job* job, double test_accuracy, double test_loss,
                              uint64_t samples, int64_t timeout_ms) {
  return WithEngine(job, [&](ProgramEngine& engine) -> absl::Status {
    if (test_accuracy < 0 || test_accuracy > 1) {
      return BadArgument(
          absl::StrCat("test_accuracy: expected 0 to 1, or NaN, got ", test_accuracy));
    }
    capstan::v1::ReportResultRequest result;
    result.set_has_no_accuracy(!std::isfinite(test_accuracy));
    result.set_has_no_loss(!std::isfinite(test_loss));
    if (!result.has_no_accuracy()) result.set_test_accuracy(test_accuracy);
    if (!result.has_no_loss()) result.set_test_loss(test_loss);
    result.set_test_samples(samples);
    return engine.Report(result, LimitOf(timeout_ms));
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
