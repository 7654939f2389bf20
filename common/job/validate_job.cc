#include "common/job/validate_job.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/codec/codec.h"
#include "common/codec/table_codecs.h"
#include "common/job/field_text.h"
#include "common/job/job_checker.h"
#include "common/job/job_properties.h"
#include "common/job/known_values.h"
#include "common/job/test_values.h"
#include "common/job/validate_local_steps.h"
#include "common/job/validate_stream_job.h"
#include "common/tensor/slicing.h"

namespace capstan {
namespace {

bool IsName(absl::string_view name) {
  return !name.empty() && name.size() <= 100 && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '_';
  });
}

template <typename Number>
bool IsIn(Number value, Number low, Number high) {
  return low <= value && value <= high;
}

bool IsPositive(double value) { return value > 0 && std::isfinite(value); }
bool IsFraction(double value) { return value >= 0 && value < 1; }

void CheckCluster(const v1::ClusterSpec& cluster, JobChecker* checker) {
  checker->Expect(IsIn(cluster.num_workers(), 1u, 4096u), "num_workers", "1 to 4096");
  checker->Expect(IsIn(cluster.num_servers(), 1u, 4096u), "num_servers", "1 to 4096");
  checker->Expect(IsIn(cluster.shard_count(), cluster.num_servers(), 65536u), "shard_count",
                  absl::StrCat("num_servers (", cluster.num_servers(), ") to 65536"));
}

void CheckReplicas(const v1::JobSpec& job, JobChecker* checker) {
  const uint32_t replicas = job.cluster().replicas();
  checker->Expect(IsIn(replicas, 1u, 2u), "replicas", "1 or 2");
  if (replicas == 1) return;
  checker->Expect(job.cluster().num_servers() >= 2, "num_servers",
                  "2 or more, as replicas is 2: a shard's copy is on another server (or take "
                  "--replicas=1)");
  checker->Expect(job.transport().type() != v1::TransportSpec::UCX, "transport",
                  "grpc or auto, as replicas is 2: over UCX 1.13 a broken connection may still "
                  "write into memory whose exchange was answered as lost");
}

void CheckModel(const v1::ModelSpec& model, JobChecker* checker) {
  checker->Expect(
      model.type() != v1::ModelSpec::TYPE_UNSPECIFIED, "model",
      "mlp, logistic_regression, replay, program, sparse_logistic_regression, deepfm or updates");
  checker->Expect(model.precision() != v1::ModelSpec::PRECISION_UNSPECIFIED, "precision",
                  "float32, tf32 or bfloat16");
  checker->Expect(model.type() != v1::ModelSpec::LOGISTIC_REGRESSION || model.hidden().empty(),
                  "hidden", "nothing (--hidden=), as logistic_regression has no hidden layers");
  checker->Expect(model.type() != v1::ModelSpec::REPLAY || model.hidden().empty(), "hidden",
                  "nothing (--hidden=), as a replay has the layers of its list");
  checker->Expect(model.type() != v1::ModelSpec::PROGRAM || model.hidden().empty(), "hidden",
                  "nothing (--hidden=), as a program brings its own layers");
  checker->Expect(model.type() != v1::ModelSpec::UPDATES || model.hidden().empty(), "hidden",
                  "nothing (--hidden=), as updates has a table for each layer");
  checker->Expect(!model.replay().layers().empty(), "model.replay.layers", "a name or a file");
  checker->Expect(model.replay().scale() >= 1, "model.replay.scale", "1 or more");
  checker->Expect(IsIn(model.replay().compute_seconds(), 0.0, 3600.0),
                  "model.replay.compute_seconds", "0 to 3600");
  checker->Expect(IsIn(model.updates().tables(), 1u, 1024u), "model.updates.tables", "1 to 1024");
  checker->Expect(IsIn(model.updates().compute_seconds(), 0.0, 3600.0),
                  "model.updates.compute_seconds", "0 to 3600");
  for (uint32_t width : model.hidden()) {
    checker->Expect(IsIn(width, 1u, 65536u), "hidden", "widths of 1 to 65536");
  }
}

// Each table of updates is one slice.
void CheckUpdates(const v1::JobSpec& job, JobChecker* checker) {
  if (job.model().type() != v1::ModelSpec::UPDATES) return;
  const uint64_t workers = job.cluster().num_workers();
  checker->Expect(workers <= kMaxTestWorkers, "num_workers",
                  absl::StrCat("1 to ", kMaxTestWorkers, ", as the model is updates"));
  if (workers == 0 || workers > kMaxTestWorkers) return;
  const uint64_t most_steps =
      std::min(kMaxTestElements, job.scheduler().slice_bytes() / sizeof(float)) / workers;
  checker->Expect(IsIn(job.training().steps(), uint64_t{1}, most_steps), "steps",
                  absl::StrCat("1 to ", most_steps,
                               ", as the model is updates: a slice of --slice_bytes has a number "
                               "for each worker and step"));
  checker->Expect(!job.stay(), "stay", "a job with an end, as the model is updates");
}

void CheckData(const v1::DataSpec& data, JobChecker* checker) {
  const std::string format =
      FieldText(data, *v1::DataSpec::descriptor()->FindFieldByName("format"));
  const bool is_idx = data.format() == v1::DataSpec::IDX;
  const bool is_file = is_idx || data.format() == v1::DataSpec::CSV ||
                       data.format() == v1::DataSpec::LIBSVM ||
                       data.format() == v1::DataSpec::LIBFFM;
  checker->Expect(data.format() != v1::DataSpec::FORMAT_UNSPECIFIED, "data_format",
                  "digits, csv, idx, libsvm, synthetic, libffm or synthetic_ctr");
  checker->Expect(!is_file || !data.path().empty(), "data_path",
                  absl::StrCat("the file of samples, as data_format is ", format));
  checker->Expect(!is_idx || !data.labels_path().empty(), "data_labels_path",
                  "the file of labels, as data_format is idx");
  checker->Expect(!is_idx || data.test_path().empty() || !data.test_labels_path().empty(),
                  "test_labels_path", "the file of labels of test_path, as data_format is idx");
  checker->Expect(data.test_fraction() > 0 && data.test_fraction() < 1, "test_fraction",
                  "more than 0 and less than 1");
  checker->Expect(data.classes() != 1, "classes", "2 or more, or 0 for those in the data");
  checker->Expect(data.label_column() >= -1, "label_column", "-1 (the last one) or more");
  checker->Expect(data.feature_scale() >= 0 && std::isfinite(data.feature_scale()), "feature_scale",
                  "0 (automatic) or more");
  checker->Expect(data.synthetic().samples() >= 2, "data.synthetic.samples", "2 or more");
  checker->Expect(data.synthetic().features() >= 1, "data.synthetic.features", "1 or more");
  checker->Expect(data.synthetic().classes() >= 2, "data.synthetic.classes", "2 or more");
  checker->Expect(data.synthetic().teacher_hidden() >= 1, "data.synthetic.teacher_hidden",
                  "1 or more");
}

void CheckTraining(const v1::TrainingSpec& training, JobChecker* checker) {
  checker->Expect(training.batch_size() >= 1, "batch_size", "1 or more");
  checker->Expect(training.steps() <= uint64_t{INT64_MAX}, "steps", "less than 2^63");
  checker->Expect(training.steps() >= 1 || training.epochs() >= 1, "epochs",
                  "1 or more, as steps is 0");
}

void CheckOptimizer(const v1::OptimizerSpec& optimizer, JobChecker* checker) {
  constexpr absl::string_view kFraction = "0 or more and less than 1";
  checker->Expect(
      optimizer.type() != v1::OptimizerSpec::TYPE_UNSPECIFIED, "optimizer",
      "sgd, momentum, nesterov, adagrad, adam, adamw, rmsprop, lion, row_adagrad or ftrl");
  checker->Expect(IsPositive(optimizer.learning_rate()), "learning_rate",
                  "a finite number above 0");
  checker->Expect(IsFraction(optimizer.momentum()), "momentum", kFraction);
  checker->Expect(IsFraction(optimizer.beta1()), "beta1", kFraction);
  checker->Expect(IsFraction(optimizer.beta2()), "beta2", kFraction);
  checker->Expect(IsFraction(optimizer.alpha()), "optimizer.alpha", kFraction);
  checker->Expect(IsIn(optimizer.dampening(), 0.0, 1.0), "optimizer.dampening", "0 to 1");
  checker->Expect(IsPositive(optimizer.epsilon()), "epsilon", "a finite number above 0");
  checker->Expect(optimizer.weight_decay() >= 0 && std::isfinite(optimizer.weight_decay()),
                  "weight_decay", "a finite number, 0 or more");
  checker->Expect(IsPositive(optimizer.beta()), "beta", "a finite number above 0");
  for (const auto& [value, name] :
       {std::pair(optimizer.l1(), "l1"), std::pair(optimizer.l2(), "l2")}) {
    checker->Expect(value >= 0 && std::isfinite(value), name, "a finite number, 0 or more");
  }
}

void CheckConsistency(const v1::ConsistencySpec& consistency, JobChecker* checker) {
  checker->Expect(consistency.mode() != v1::ConsistencySpec::MODE_UNSPECIFIED, "consistency",
                  "bsp, ssp or async");
  checker->Expect(consistency.staleness() >= 0, "staleness", "0 or more");
  checker->Expect(consistency.staleness() == 0 || consistency.mode() == v1::ConsistencySpec::SSP,
                  "staleness", "0, because it is for consistency ssp only");
  checker->Expect(
      consistency.table_staleness().empty() || consistency.mode() == v1::ConsistencySpec::SSP,
      "table_staleness", "nothing, because it is for consistency ssp only");
  checker->Expect(consistency.update_scale() != v1::ConsistencySpec::UPDATE_SCALE_UNSPECIFIED,
                  "update_scale", "staleness, mean or sum");
  std::set<std::string> tables;
  for (const v1::TableStaleness& own : consistency.table_staleness()) {
    checker->Expect(own.staleness() >= 0, "table_staleness", "0 or more for each table");
    checker->Expect(!own.table().empty() && tables.insert(own.table()).second, "table_staleness",
                    "each table once, by its name");
  }
}

void CheckDgc(const v1::JobSpec& job, JobChecker* checker) {
  const v1::CodecSpec& codec = job.codec();
  checker->Expect(IsFraction(codec.dgc_momentum()), "codec.dgc_momentum",
                  "0 or more and less than 1");
  checker->Expect(codec.dgc_clip_norm() >= 0 && std::isfinite(codec.dgc_clip_norm()),
                  "codec.dgc_clip_norm", "a finite number, 0 or more");
  checker->Expect(codec.dgc_warmup_steps() <= uint64_t{INT64_MAX}, "codec.dgc_warmup_steps",
                  "less than 2^63");
  if (!codec.dgc()) return;
  checker->Expect(absl::StartsWith(codec.push(), "topk:"), "push_codec",
                  "a topk, as in topk:0.001, because of dgc");
  checker->Expect(!HasAutoCodec(codec), "dgc", "off with an auto codec");
  checker->Expect(job.optimizer().type() == v1::OptimizerSpec::SGD, "optimizer",
                  "sgd, because with dgc the workers compute the momentum (codec.dgc_momentum)");
}

absl::Status CheckCodecText(absl::string_view text) {
  if (text == kAutoCodec) return absl::OkStatus();
  const absl::Status status = MakeCodec(text).status();
  if (status.ok() || absl::StartsWith(text, "topk")) return status;
  return absl::InvalidArgumentError(
      absl::StrReplaceAll(status.message(), {{"expected float32,", "expected auto, float32,"}}));
}

void CheckCodec(const v1::CodecSpec& codec, JobChecker* checker) {
  checker->ExpectOk(CheckCodecText(codec.push()), "push_codec");
  checker->ExpectOk(CheckCodecText(codec.pull()), "pull_codec");
  std::set<std::string> tables;
  for (const v1::TableCodec& own : codec.table_codec()) {
    checker->Expect(!own.table().empty() && tables.insert(own.table()).second, "table_codec",
                    "each table once, by its name");
    checker->ExpectOk(Annotate(CheckCodecText(own.codec()), absl::StrCat("table ", own.table())),
                      "table_codec");
  }
}

void CheckScheduler(const v1::SchedulerSpec& scheduler, JobChecker* checker) {
  checker->Expect(scheduler.policy() != v1::SchedulerSpec::POLICY_UNSPECIFIED, "schedule",
                  "tensor_fifo, slice_fifo or priority");
  checker->Expect(scheduler.slice_bytes() % 64 == 0 &&
                      IsIn<uint64_t>(scheduler.slice_bytes(), 64, kMaxSliceBytes),
                  "slice_bytes", "a multiple of 64 from 64 to 64MiB");
  checker->Expect(scheduler.credit_bytes() >= 1, "scheduler.credit_bytes", "1 or more");
  checker->Expect(!scheduler.tune() || scheduler.policy() != v1::SchedulerSpec::TENSOR_FIFO,
                  "scheduler.tune",
                  "off, because schedule tensor_fifo sends whole tensors of fixed size "
                  "(take priority or slice_fifo)");
}

void CheckMembership(const v1::MembershipSpec& membership, JobChecker* checker) {
  const double heartbeat = membership.heartbeat_seconds();
  const double lease = membership.lease_seconds();
  const double deadline = membership.rpc_deadline_seconds();
  checker->Expect(IsPositive(heartbeat), "heartbeat_seconds", "a finite number above 0");
  checker->Expect(IsPositive(lease) && lease >= 3 * heartbeat, "lease_seconds",
                  absl::StrCat("at least 3 x heartbeat_seconds (", 3 * heartbeat, ")"));
  checker->Expect(IsPositive(deadline) && deadline >= lease, "rpc_deadline_seconds",
                  absl::StrCat("at least lease_seconds (", lease, ")"));
  const double registration = membership.registration_seconds();
  checker->Expect(registration == 0 || IsPositive(registration), "registration_seconds",
                  "0 (for ever) or a finite number above 0");
  const double replace = membership.replace_seconds();
  checker->Expect(replace == 0 || IsPositive(replace), "replace_seconds",
                  "0 (no place is held) or a finite number above 0");
  const double coordinator = membership.coordinator_seconds();
  // The default does not count: a longer deadline takes its place.
  checker->Expect(
      IsPositive(coordinator) && (coordinator >= deadline || !membership.has_coordinator_seconds()),
      "coordinator_seconds", absl::StrCat("at least rpc_deadline_seconds (", deadline, ")"));
}

// Accepts names, but no patterns of UCX: tcp must be named to be used.
bool AreUcxTransports(absl::string_view names) {
  if (names.empty()) return true;
  const std::vector<absl::string_view> list = absl::StrSplit(names, ',');
  return std::all_of(list.begin(), list.end(),
                     [](absl::string_view name) { return IsName(name) && name != "all"; });
}

void CheckTransport(const v1::TransportSpec& transport, JobChecker* checker) {
  checker->Expect(IsIn<uint64_t>(transport.grpc_connections(), 1, 64), "transport.grpc_connections",
                  "1 to 64");
  checker->Expect(AreUcxTransports(transport.ucx_transports()), "transport.ucx_transports",
                  "names of UCX's transports separated by commas, as in tcp,sm,self");
  checker->Expect(transport.max_inflight_bytes() >= 64 << 10, "transport.max_inflight_bytes",
                  "64KiB or more");
}

void CheckLimits(const v1::LimitsSpec& limits, JobChecker* checker) {
  checker->Expect(IsPositive(limits.handshake_seconds()), "limits.handshake_seconds",
                  "a finite number above 0");
  checker->Expect(IsPositive(limits.idle_connection_seconds()), "limits.idle_connection_seconds",
                  "a finite number above 0");
  checker->Expect(IsIn<uint64_t>(limits.unproved_connections(), 1, 65536),
                  "limits.unproved_connections", "1 to 65536");
  checker->Expect(IsIn<uint64_t>(limits.calls_per_connection(), 4, 1024),
                  "limits.calls_per_connection", "4 to 1024");
  checker->Expect(IsPositive(limits.registrations_per_second()), "limits.registrations_per_second",
                  "a finite number above 0");
  checker->Expect(IsIn<uint64_t>(limits.message_bytes(), 64 << 10, 64 << 20),
                  "limits.message_bytes", "64KiB to 64MiB");
}

void CheckCheckpoint(const v1::CheckpointSpec& checkpoint, JobChecker* checker) {
  const bool has_dir = !checkpoint.dir().empty();
  const double seconds = checkpoint.seconds();
  checker->Expect(has_dir || checkpoint.steps() == 0, "checkpoint_dir",
                  "a folder, as checkpoint_steps is given");
  checker->Expect(has_dir || seconds == 0, "checkpoint_dir",
                  "a folder, as checkpoint_seconds is given");
  checker->Expect(has_dir || checkpoint.restore() != kLatestCheckpoint, "checkpoint_dir",
                  "the folder with the checkpoints, as restore is latest");
  checker->Expect(checkpoint.steps() <= uint64_t{1} << 53, "checkpoint_steps", "2^53 or less");
  checker->Expect(seconds == 0 || IsPositive(seconds), "checkpoint_seconds",
                  "0 (none) or a finite number above 0");
  checker->Expect(seconds == 0 || checkpoint.steps() == 0, "checkpoint_seconds",
                  "0, as checkpoint_steps is given: one of the two");
  checker->Expect(checkpoint.keep() >= 1, "keep", "1 or more");
}

void CheckFiles(const v1::JobSpec& job, JobChecker* checker) {
  checker->Expect(!job.initial().empty() || !job.initial_optimizer_state(), "initial",
                  "a file, as initial_optimizer_state is given");
  checker->Expect(!job.output().empty() || !job.output_optimizer_state(), "output",
                  "a file, as output_optimizer_state is given");
}

void CheckStay(const v1::JobSpec& job, JobChecker* checker) {
  if (!job.stay()) return;
  checker->Expect(job.output().empty(), "output",
                  "nothing, as the job stays and has no end; export a checkpoint");
  checker->Expect(job.model().type() != v1::ModelSpec::PROGRAM, "stay",
                  "false (--nostay), as the programs of a job with --model=program end it");
}

}  // namespace

absl::Status ValidateConsistency(const v1::ConsistencySpec& consistency) {
  RETURN_IF_ERROR(CheckEnumsAreKnown(consistency));
  v1::JobSpec job;
  *job.mutable_consistency() = consistency;
  JobChecker checker(job);
  CheckConsistency(consistency, &checker);
  return checker.status();
}

absl::Status ValidateJob(const v1::JobSpec& job) {
  RETURN_IF_ERROR(CheckEnumsAreKnown(job));
  JobChecker checker(job);
  checker.Expect(IsName(job.name()), "job_name", "1 to 100 letters, digits, - and _");
  CheckCluster(job.cluster(), &checker);
  CheckReplicas(job, &checker);
  CheckModel(job.model(), &checker);
  CheckUpdates(job, &checker);
  CheckData(job.data(), &checker);
  CheckTraining(job.training(), &checker);
  if (LearnsFromStream(job.model())) {
    CheckStreamJob(job, &checker);
  } else {
    CheckHasNoStream(job, &checker);
  }
  CheckOptimizer(job.optimizer(), &checker);
  CheckConsistency(job.consistency(), &checker);
  CheckLocalStepsJob(job, &checker);
  CheckCheckpoint(job.checkpoint(), &checker);
  CheckFiles(job, &checker);
  CheckStay(job, &checker);
  CheckCodec(job.codec(), &checker);
  CheckDgc(job, &checker);
  CheckScheduler(job.scheduler(), &checker);
  CheckMembership(job.membership(), &checker);
  CheckTransport(job.transport(), &checker);
  CheckLimits(job.limits(), &checker);
  return checker.status();
}

}  // namespace capstan
