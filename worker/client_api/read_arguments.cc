#include "worker/client_api/read_arguments.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/cpu_name.h"
#include "common/base/host_port.h"
#include "common/base/printable_text.h"
#include "common/base/program.h"
#include "common/base/status_macros.h"
#include "worker/client_api/convert_floats.h"
#include "worker/client_api/read_struct.h"

namespace capstan {
namespace {

std::string TextOf(const char* text, const char* variable = nullptr) {
  if (text != nullptr) return text;
  const char* const value = variable == nullptr ? nullptr : std::getenv(variable);
  return value == nullptr ? "" : value;
}

absl::StatusOr<std::optional<uint32_t>> RankOf(const capstan_connect_options& options) {
  if (options.has_rank != 0) {
    if (options.rank < 0)
      return absl::InvalidArgumentError(
          absl::StrCat("rank: expected 0 or more, got ", options.rank));
    return static_cast<uint32_t>(options.rank);
  }
  // torchrun within a worker sets RANK anew.
  for (const char* const variable : {"CAPSTAN_RANK", "RANK"}) {
    const std::string text = TextOf(nullptr, variable);
    if (text.empty()) continue;
    uint32_t rank = 0;
    if (!absl::SimpleAtoi(text, &rank)) {
      return absl::InvalidArgumentError(
          absl::StrCat(variable, ": expected a number, 0 or more, got \"", text, "\""));
    }
    return rank;
  }
  return std::nullopt;
}

// A callback of UCX's thread, which cannot go on: neither can the process.
void EndProcess(const absl::Status& status) { EndProgram("capstan", status); }

// With its kind in parentheses. Only the program knows more than the CPU.
std::string DeviceOf(const char* given) {
  const std::string device = given == nullptr ? "program" : PrintableText(given);
  if (device.find('(') != device.npos) return device;
  return absl::StrCat(device, " (CPU ", CpuName(), ")");
}

absl::StatusOr<v1::OptimizerSpec::Type> OptimizerTypeOf(int32_t type) {
  if (v1::OptimizerSpec::Type_IsValid(type) && type != v1::OptimizerSpec::TYPE_UNSPECIFIED) {
    return static_cast<v1::OptimizerSpec::Type>(type);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("optimizer: expected a capstan_optimizer_type, got ", type));
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

absl::Status SetDenseOptimizer(const capstan_dense_optimizer* argument, v1::TableSpec& table) {
  ASSIGN_OR_RETURN(
      const capstan_dense_optimizer given,
      ReadStruct(argument, &capstan_dense_optimizer::maximize, "capstan_dense_optimizer"));
  RETURN_IF_ERROR(SetOptimizer(given.basic, table));
  // What is not used, or is the default, is left out: a checkpoint of a program that did not know
  // the setting has the same table.
  v1::OptimizerSpec& optimizer = *table.mutable_optimizer();
  if (optimizer.type() == v1::OptimizerSpec::RMSPROP) optimizer.set_alpha(given.alpha);
  if (given.dampening != 0) optimizer.set_dampening(given.dampening);
  if (given.centered != 0) optimizer.set_centered(true);
  if (given.amsgrad != 0) optimizer.set_amsgrad(true);
  if (given.maximize != 0) optimizer.set_maximize(true);
  return absl::OkStatus();
}

// The most elements of a table: 2^40.
constexpr uint64_t kMostElements = uint64_t{1} << 40;

absl::StatusOr<uint64_t> SetShape(const capstan_table& given, v1::TableSpec& table) {
  if (given.dimensions > 0 && given.shape == nullptr)
    return absl::InvalidArgumentError("shape: expected sizes");
  uint64_t elements = 1;
  for (size_t i = 0; i < given.dimensions; ++i) {
    const uint64_t size = given.shape[i];
    if (size == 0 || size > kMostElements / elements) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape of table ", table.name(),
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
    return absl::InvalidArgumentError("name: expected a table's name, in printable characters");
  table.set_name(name);
  if (layer < 0)
    return absl::InvalidArgumentError(absl::StrCat("layer: expected 0 or more, got ", layer));
  table.set_layer(static_cast<uint32_t>(layer));
  return absl::OkStatus();
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

}  // namespace

absl::StatusOr<ClientJob::Options> ReadConnectOptions(const capstan_connect_options* options) {
  capstan_connect_options given = {};
  if (options != nullptr) {
    ASSIGN_OR_RETURN(given, ReadStruct(options, &capstan_connect_options::health_listen,
                                       "capstan_connect_options"));
  }
  ClientJob::Options read;
  WorkerProcess::Options& process = read.process;
  process.coordinator = TextOf(given.coordinator, "CAPSTAN_COORDINATOR");
  if (process.coordinator.empty()) {
    return absl::InvalidArgumentError(
        "coordinator: expected HOST:PORT, got nothing; name it, or start the program by capstan "
        "run --worker_command");
  }
  const bool is_given = given.coordinator != nullptr && *given.coordinator != 0;
  RETURN_IF_ERROR(
      ParseAddresses(is_given ? "coordinator" : "CAPSTAN_COORDINATOR", process.coordinator)
          .status());
  process.context.keys = TextOf(given.keys, "CAPSTAN_KEYS");
  process.context.insecure = given.insecure != 0;
  ASSIGN_OR_RETURN(process.rank, RankOf(given));
  const bool may_be_part = given.has_rank != 0 && given.incarnation != 0 && given.replaceable == 0;
  if (given.part < 0 || given.part > static_cast<int32_t>(kMostWorkerParts) ||
      (given.part > 0 && !may_be_part)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "part: expected 0, or 1 to ", kMostWorkerParts,
        " with has_rank, rank and incarnation, and not replaceable, got ", given.part));
  }
  if (given.part > 0) {
    process.part_of = {WorkerId(*process.rank), static_cast<uint32_t>(given.part)};
    process.incarnation = Incarnation(given.incarnation);
  }
  process.processes = TextOf(given.processes);
  if (given.steps < 0)
    return absl::InvalidArgumentError(absl::StrCat("steps: expected 0 or more, got ", given.steps));
  read.steps = given.steps;
  if (!(given.rpc_deadline_seconds >= 0)) {
    return absl::InvalidArgumentError("rpc_deadline_seconds: expected 0 or more");
  }
  if (given.rpc_deadline_seconds > 0) {
    process.rpc_deadline = absl::Seconds(given.rpc_deadline_seconds);
  }
  read.is_replaceable = given.replaceable != 0;
  read.device = DeviceOf(given.device);
  process.trace = TextOf(given.trace);
  process.record_history = TextOf(given.record_history);
  process.context.metrics_listen = TextOf(given.metrics_listen);
  process.context.health_listen = TextOf(given.health_listen);
  process.on_ucx_blocked = &EndProcess;
  return read;
}

absl::StatusOr<GivenTable> ReadTable(const capstan_table* argument) {
  ASSIGN_OR_RETURN(const capstan_table given,
                   ReadStruct(argument, &capstan_table::initial_stddev, "capstan_table"));
  GivenTable read;
  read.elsewhere = given.elsewhere != 0;
  v1::TableSpec& table = read.spec;
  RETURN_IF_ERROR(SetNameAndLayer(given.name, given.layer, table));
  ASSIGN_OR_RETURN(const uint64_t elements, SetShape(given, table));
  table.set_replies_mean(given.replies_mean != 0);
  if (given.tensor != nullptr) table.set_tensor(given.tensor);
  if (given.dense_optimizer != nullptr) {
    RETURN_IF_ERROR(SetDenseOptimizer(given.dense_optimizer, table));
  } else if (given.optimizer != nullptr) {
    RETURN_IF_ERROR(SetOptimizer(*given.optimizer, table));
  }
  table.set_initial_from_worker(given.initial_from_worker != 0);
  if (given.initial_from_worker == 0) {
    table.set_initial_stddev(given.initial_stddev);
  } else if (given.initial != nullptr) {
    read.initial.resize(elements);
    RETURN_IF_ERROR(ToFloats(given.initial, given.initial_dtype, absl::MakeSpan(read.initial)));
  }
  return read;
}

absl::StatusOr<v1::TableSpec> ReadSparseTable(const capstan_sparse_table* argument) {
  ASSIGN_OR_RETURN(const capstan_sparse_table given,
                   ReadStruct(argument, &capstan_sparse_table::max_rows, "capstan_sparse_table"));
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

absl::StatusOr<v1::LocalSteps> ReadLocalSteps(const capstan_local_steps* argument) {
  ASSIGN_OR_RETURN(
      const capstan_local_steps given,
      ReadStruct(argument, &capstan_local_steps::fragment_sync_delay, "capstan_local_steps"));
  if (given.fragments < 0 || given.fragment_sync_delay < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("fragments and fragment_sync_delay: expected 0 or more, got ", given.fragments,
                     " and ", given.fragment_sync_delay));
  }
  v1::LocalSteps local_steps;
  local_steps.set_sync_every(given.sync_every);
  local_steps.set_round_seconds(given.round_seconds);
  local_steps.set_fragments(given.fragments == 0 ? 1 : static_cast<uint32_t>(given.fragments));
  local_steps.set_fragment_sync_delay(static_cast<uint32_t>(given.fragment_sync_delay));
  return local_steps;
}

}  // namespace capstan
