#include "common/job/job_properties.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <xxhash.h>

#include <algorithm>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/codec/table_codecs.h"
#include "common/job/field_text.h"
#include "common/tensor/slicing.h"

namespace capstan {
namespace {

constexpr char kFloat32[] = "float32";

bool IsTopkName(absl::string_view codec) { return absl::StartsWith(codec, "topk"); }

}  // namespace

bool LearnsFromStream(const v1::ModelSpec& model) {
  return model.type() == v1::ModelSpec::SPARSE_LOGISTIC_REGRESSION ||
         model.type() == v1::ModelSpec::DEEPFM;
}

bool LearnsNothing(const v1::ModelSpec& model) {
  return model.type() == v1::ModelSpec::REPLAY || model.type() == v1::ModelSpec::UPDATES;
}

bool HasLocalSteps(const v1::JobSpec& job) {
  const v1::LocalStepsSpec& rounds = job.training().local_steps();
  return rounds.sync_every() > 0 || rounds.round_seconds() > 0;
}

v1::OptimizerSpec LocalOptimizer(const v1::LocalStepsSpec& local_steps) {
  const v1::LocalOptimizerSpec& local = local_steps.optimizer();
  v1::OptimizerSpec optimizer;
  optimizer.set_type(local.type());
  optimizer.set_learning_rate(local.learning_rate());
  // What some optimizers have unless it is given depends on whether it is set.
  if (local.has_momentum()) optimizer.set_momentum(local.momentum());
  if (local.has_beta2()) optimizer.set_beta2(local.beta2());
  optimizer.set_beta1(local.beta1());
  optimizer.set_epsilon(local.epsilon());
  optimizer.set_weight_decay(local.weight_decay());
  return optimizer;
}

int64_t RoundsFor(int64_t local_steps, const v1::LocalStepsSpec& rounds) {
  const int64_t each = rounds.sync_every();
  return each == 0 ? local_steps : (local_steps + each - 1) / each;
}

void FillOuterOptimizer(v1::JobSpec* job) {
  if (!HasLocalSteps(*job) || job->optimizer().has_type()) return;
  // Douillard et al., "DiLoCo", 2023, table 5. The default momentum is theirs.
  job->mutable_optimizer()->set_type(v1::OptimizerSpec::NESTEROV);
  if (!job->optimizer().has_learning_rate()) job->mutable_optimizer()->set_learning_rate(0.7);
}

uint64_t JobFingerprint(const v1::JobSpec& job) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);
    job.SerializeToCodedStream(&out);
  }
  return XXH3_64bits(bytes.data(), bytes.size());
}

v1::TransportSpec TransportOf(const v1::JobSpec& job) {
  v1::TransportSpec transport = job.transport();
  if (job.cluster().replicas() > 1 && transport.type() == v1::TransportSpec::AUTO) {
    transport.set_type(v1::TransportSpec::GRPC);
  }
  return transport;
}

uint64_t SliceBytes(const v1::SchedulerSpec& scheduler) {
  constexpr uint64_t kTunedSliceBytes = 256 << 10;
  if (scheduler.policy() == v1::SchedulerSpec::TENSOR_FIFO) return kMaxSliceBytes;
  const bool is_own = scheduler.has_slice_bytes() || !scheduler.tune();
  return is_own ? scheduler.slice_bytes() : kTunedSliceBytes;
}

int64_t EndStep(const v1::JobSpec& job, int64_t steps, int64_t first_step) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  if (!job.stay() || steps <= 0) return steps;
  const int64_t begin = first_step - first_step % steps;  // of the round
  return begin > kMost - steps ? kMost : begin + steps;
}

uint32_t ReplicaConnections(const v1::JobSpec& job) {
  if (job.cluster().replicas() < 2) return 0;
  return (job.cluster().num_servers() - 1) * job.transport().grpc_connections();
}

std::vector<uint32_t> HiddenWidths(const v1::ModelSpec& model) {
  const bool has_default =
      model.type() == v1::ModelSpec::MLP || model.type() == v1::ModelSpec::DEEPFM;
  if (has_default && model.hidden().empty()) return {128, 64};
  return {model.hidden().begin(), model.hidden().end()};
}

std::string ConsistencyText(const v1::ConsistencySpec& consistency) {
  std::string text = absl::AsciiStrToLower(v1::ConsistencySpec::Mode_Name(consistency.mode()));
  if (consistency.mode() != v1::ConsistencySpec::SSP) return text;
  absl::StrAppend(&text, ", staleness ", consistency.staleness());
  if (consistency.table_staleness().empty()) return text;
  const auto append = [](std::string* out, const v1::TableStaleness& own) {
    absl::StrAppend(out, own.table(), " ", own.staleness());
  };
  return absl::StrCat(text, " (", absl::StrJoin(consistency.table_staleness(), ", ", append), ")");
}

bool HasCodec(const v1::CodecSpec& codec) {
  return codec.pull() != kFloat32 || HasPushCodec(codec);
}

bool HasPushCodec(const v1::CodecSpec& codec) {
  return codec.push() != kFloat32 ||
         std::any_of(codec.table_codec().begin(), codec.table_codec().end(),
                     [](const v1::TableCodec& own) { return own.codec() != kFloat32; });
}

uint32_t MostPushArrays(const v1::CodecSpec& codec) {
  return (HasPushCodec(codec) ? 1 : 0) + (codec.dgc() ? 1 : 0);
}

bool HasAutoCodec(const v1::CodecSpec& codec) {
  return codec.push() == kAutoCodec || codec.pull() == kAutoCodec ||
         std::any_of(codec.table_codec().begin(), codec.table_codec().end(),
                     [](const v1::TableCodec& own) { return own.codec() == kAutoCodec; });
}

bool HasTopkPull(const v1::CodecSpec& codec) {
  return IsTopkName(codec.pull()) ||
         std::any_of(codec.table_codec().begin(), codec.table_codec().end(),
                     [](const v1::TableCodec& own) { return IsTopkName(own.codec()); });
}

bool HasTopk(const v1::CodecSpec& codec) { return IsTopkName(codec.push()) || HasTopkPull(codec); }

std::string CodecText(const v1::CodecSpec& codec) {
  const std::string all =
      absl::StrCat("push ", codec.push(), codec.dgc() ? " with dgc" : "", ", pull ", codec.pull());
  const auto append = [](std::string* out, const v1::TableCodec& own) {
    absl::StrAppend(out, own.table(), " ", own.codec());
  };
  const std::string own = absl::StrJoin(codec.table_codec(), ", ", append);
  return absl::StrCat(all, own.empty() ? "" : absl::StrCat(" (", own, ")"),
                      codec.min_bytes() == 0
                          ? ""
                          : absl::StrCat(", tables from ", FormatSize(codec.min_bytes()), " on"));
}

}  // namespace capstan
