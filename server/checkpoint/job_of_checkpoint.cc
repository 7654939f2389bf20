#include "server/checkpoint/job_of_checkpoint.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/printable_text.h"
#include "common/codec/codec.h"
#include "common/job/field_text.h"
#include "common/job/job_properties.h"
#include "common/job/job_settings.h"
#include "common/job/optimizer_check.h"

namespace capstan {
namespace {

// How a field of the job may differ from the checkpoint's.
enum class Freedom { kNone, kAnyPath, kAnyValue };

Freedom FreedomOf(const JobSetting& setting) {
  const std::string& path = setting.path;
  // Another path to the same data. A path in place of none, or none, is other data.
  if (absl::StartsWith(path, "data.") && absl::EndsWith(path, "path")) return Freedom::kAnyPath;
  static constexpr absl::string_view kAnyValue[] = {"name",
                                                    "stay",
                                                    "initial",
                                                    "initial_optimizer_state",
                                                    "output",
                                                    "output_optimizer_state",
                                                    "cluster.num_servers",
                                                    "cluster.replicas",
                                                    "consistency.",
                                                    "checkpoint.",
                                                    "scheduler.",
                                                    "transport.",
                                                    "training.steps",
                                                    "limits.",
                                                    "membership.",
                                                    "codec.reply_state_bytes",
                                                    "training.epochs"};
  for (const absl::string_view beginning : kAnyValue) {
    if (path == beginning ||
        (absl::EndsWith(beginning, ".") && absl::StartsWith(path, beginning))) {
      return Freedom::kAnyValue;
    }
  }
  return Freedom::kNone;
}

std::string DifferenceText(const JobSetting& setting, absl::string_view of_checkpoint,
                           absl::string_view of_job) {
  const auto text = [](absl::string_view value) {
    return value.empty() ? "nothing" : ShortPrintableText(value);
  };
  return absl::StrCat(setting.OnCommandLine(), ": expected ", text(of_checkpoint), ", got ",
                      text(of_job));
}

// Whether the data determine the value. The tables show then whether it is the same.
bool IsFromData(const JobSetting& setting, absl::string_view value) {
  return (setting.flag == "classes" || setting.flag == "features") && value == "0";
}

// A default and the same value written out do not differ.
void WriteOutHidden(v1::JobSpec& job) {
  const std::vector<uint32_t> widths = HiddenWidths(job.model());
  job.mutable_model()->mutable_hidden()->Assign(widths.begin(), widths.end());
}

// The same codec can be written in several ways: topk:0.010:float32 is topk:0.01.
void WriteOutCodecs(v1::CodecSpec& codec) {
  const auto name = [](const std::string& text) {
    const absl::StatusOr<std::shared_ptr<const Codec>> made = MakeCodec(text);
    return made.ok() ? (*made)->name() : text;
  };
  codec.set_push(name(codec.push()));
  codec.set_pull(name(codec.pull()));
  for (v1::TableCodec& own : *codec.mutable_table_codec()) own.set_codec(name(own.codec()));
  std::sort(codec.mutable_table_codec()->begin(), codec.mutable_table_codec()->end(),
            [](const v1::TableCodec& left, const v1::TableCodec& right) {
              return left.table() < right.table();
            });
}

// What some optimizers have unless it is given (job.proto).
template <typename Spec>  // of the servers or of local steps
void WriteOutOptimizer(Spec& optimizer) {
  if (optimizer.type() == v1::OptimizerSpec::RMSPROP && !optimizer.has_momentum()) {
    optimizer.set_momentum(0);
  }
  if (optimizer.type() == v1::OptimizerSpec::LION && !optimizer.has_beta2()) {
    optimizer.set_beta2(kLionBeta2);
  }
}

// A text for each difference that may not be.
std::vector<std::string> Differences(v1::JobSpec of_checkpoint, v1::JobSpec of_job) {
  if (of_checkpoint.model().type() == of_job.model().type()) {
    WriteOutHidden(of_checkpoint);
    WriteOutHidden(of_job);
  }
  WriteOutOptimizer(*of_checkpoint.mutable_optimizer());
  WriteOutOptimizer(*of_job.mutable_optimizer());
  for (v1::JobSpec* const job : {&of_checkpoint, &of_job}) {
    WriteOutOptimizer(*job->mutable_training()->mutable_local_steps()->mutable_optimizer());
  }
  WriteOutCodecs(*of_checkpoint.mutable_codec());
  WriteOutCodecs(*of_job.mutable_codec());
  std::vector<std::string> differences;
  const auto compare = [&](const JobSetting& setting, const std::string& expected,
                           const std::string& got) {
    if (expected != got) differences.push_back(DifferenceText(setting, expected, got));
  };
  for (const JobSetting& setting : JobSettings()) {
    const Freedom freedom = FreedomOf(setting);
    if (freedom == Freedom::kAnyValue) continue;
    const std::string expected = SettingText(setting, &of_checkpoint);
    const std::string got = SettingText(setting, &of_job);
    const bool is_path = !expected.empty() && !got.empty();
    if (freedom == Freedom::kAnyPath && is_path) continue;
    if (IsFromData(setting, expected) || IsFromData(setting, got)) continue;
    compare(setting, expected, got);
  }
  // A job without a size of its own takes the checkpoint's.
  if (of_job.scheduler().has_slice_bytes() ||
      of_job.scheduler().policy() == v1::SchedulerSpec::TENSOR_FIFO) {
    compare(*FindJobSetting("slice_bytes"), FormatSize(SliceBytes(of_checkpoint.scheduler())),
            FormatSize(SliceBytes(of_job.scheduler())));
  }
  return differences;
}

}  // namespace

absl::Status CheckJobOfCheckpoint(const v1::CheckpointManifest& manifest, const v1::JobSpec& job,
                                  const std::string& folder) {
  const std::vector<std::string> differences = Differences(manifest.job(), job);
  if (differences.empty()) return absl::OkStatus();
  bool has_rows = false;
  for (const v1::TableSpec& table : manifest.tables()) has_rows |= table.has_sparse();
  return absl::InvalidArgumentError(absl::StrCat(
      folder, ": the checkpoint is of another job: ", absl::StrJoin(differences, "; "),
      ". Only these may differ: the name, the numbers of servers, replicas and steps, transport, "
      "schedule "
      "(not slice_bytes), consistency, checkpoints, membership, and paths. ",
      has_rows ? "Another job cannot begin with the rows of this one"
               : "To begin another job with these parameters, use capstan export and --initial"));
}

}  // namespace capstan
