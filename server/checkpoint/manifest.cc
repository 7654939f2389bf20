#include "server/checkpoint/manifest.h"

#include <fcntl.h>
#include <google/protobuf/text_format.h>
#include <xxhash.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/job/field_text.h"
#include "common/job/job_flag_table.h"
#include "common/job/job_properties.h"
#include "common/job/validate_job.h"
#include "common/model_file/model_file.h"

namespace capstan {
namespace {

using ::google::protobuf::TextFormat;

constexpr uint32_t kFormatVersion = 1;
// Enough for the files of all shards. It bounds the memory for parsing a hostile one.
constexpr uint64_t kMostManifestBytes = 64 << 20;
constexpr char kChecksum[] = "# XXH3-64 of the lines above: ";

std::string ChecksumLine(absl::string_view text) {
  return absl::StrCat(kChecksum, absl::StrFormat("%016x", XXH3_64bits(text.data(), text.size())),
                      "\n");
}

// What is wrong with the fields; empty: nothing.
std::string Contradiction(const v1::CheckpointManifest& manifest) {
  const v1::ClusterSpec& cluster = manifest.job().cluster();
  if (const absl::Status valid = ValidateJob(manifest.job()); !valid.ok()) {
    return absl::StrCat("a valid job, got ", valid.message());
  }
  if (manifest.step() < 0 || manifest.end_step() < manifest.step() || manifest.steps_total() < 0) {
    return "0 <= step <= end_step and 0 <= steps_total";
  }
  if (manifest.tables().empty()) return "tables";
  if (manifest.consistency().empty() || manifest.consistency(0).first_step() != 0) {
    return "a consistency from step 0 on";
  }
  if (static_cast<uint32_t>(manifest.workers_size()) != cluster.num_workers()) {
    return absl::StrCat(cluster.num_workers(), " workers");
  }
  for (const v1::CheckpointWorker& worker : manifest.workers()) {
    if (worker.first_step() < 0) return "first steps from 0 on";
  }
  int64_t last = -1;
  for (const v1::ShardFile& file : manifest.files()) {
    if (file.shard() <= last || file.shard() >= cluster.shard_count()) {
      return absl::StrCat("files of shards 0 to ", cluster.shard_count() - 1, ", in order");
    }
    last = file.shard();
  }
  return "";
}

// Flags of the fields that may differ.
bool MayDiffer(absl::string_view flag) {
  static constexpr absl::string_view kFlags[] = {
      "job_name",  "num_servers",      "steps",     "epochs",           "initial",     "output",
      "data_path", "data_labels_path", "test_path", "test_labels_path", "check_finite"};
  for (const absl::string_view name : kFlags) {
    if (name == flag) return true;
  }
  static constexpr absl::string_view kGroups[] = {"Consistency", "Checkpoints", "Scheduler",
                                                  "Membership", "Transport"};
  for (const absl::string_view group : kGroups) {
    if (FindJobFlag(flag)->group == group) return true;
  }
  return false;
}

std::string DifferenceText(absl::string_view field, absl::string_view of_checkpoint,
                           absl::string_view of_job) {
  const auto text = [](absl::string_view value) {
    return value.empty() ? "nothing" : ShortPrintableText(value);
  };
  return absl::StrCat(field, ": expected ", text(of_checkpoint), ", got ", text(of_job));
}

}  // namespace

std::string ShardFileName(uint32_t shard) {
  return absl::StrFormat("shard-%05d.safetensors", shard);
}

std::string EncodeManifest(const v1::CheckpointManifest& manifest) {
  v1::CheckpointManifest written = manifest;
  written.set_format_version(kFormatVersion);
  std::string text;
  TextFormat::PrintToString(written, &text);
  absl::StrAppend(&text, ChecksumLine(text));
  return text;
}

absl::StatusOr<v1::CheckpointManifest> DecodeManifest(absl::string_view text,
                                                      const std::string& path) {
  const size_t checksum = text.rfind(kChecksum);
  const absl::string_view body = text.substr(0, checksum);
  if (checksum == text.npos || text.substr(checksum) != ChecksumLine(body)) {
    return absl::DataLossError(absl::StrCat(
        path, ": expected a manifest that ends in a line with the checksum of the others, got ",
        checksum == text.npos ? "none" : "another checksum",
        "; it is damaged or was edited: use another checkpoint"));
  }
  TextFormat::Parser parser;
  // A newer format may have other fields.
  parser.AllowUnknownField(true);
  v1::CheckpointManifest manifest;
  if (!parser.ParseFromString(std::string(body), &manifest)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected the manifest of a checkpoint, got another text"));
  }
  if (manifest.format_version() != kFormatVersion) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected format ", kFormatVersion,
                                                   ", got ", manifest.format_version(),
                                                   "; use the version of Capstan that wrote it"));
  }
  if (const std::string expected = Contradiction(manifest); !expected.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected ", expected));
  }
  return manifest;
}

absl::StatusOr<v1::CheckpointManifest> ReadManifest(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kManifestFile);
  absl::StatusOr<OpenFile> file = OpenFile::Open(path, O_RDONLY);
  if (absl::IsNotFound(file.status())) {
    return absl::NotFoundError(
        absl::StrCat(path,
                     ": expected the folder of a complete checkpoint, got one without this "
                     "file; capstan checkpoint --list=DIR names the complete ones"));
  }
  RETURN_IF_ERROR(file.status());
  ASSIGN_OR_RETURN(const uint64_t bytes, file->SizeBytes());
  if (bytes > kMostManifestBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected a manifest of at most ",
                                                   kMostManifestBytes, " bytes, got ", bytes));
  }
  std::string text(bytes, '\0');
  RETURN_IF_ERROR(file->ReadAt(0, text.data(), text.size()));
  return DecodeManifest(text, path);
}

absl::Status CheckJobOfCheckpoint(const v1::CheckpointManifest& manifest, const v1::JobSpec& job,
                                  const std::string& folder) {
  v1::JobSpec of_checkpoint = manifest.job(), of_job = job;
  std::vector<std::string> differences;
  for (const JobFlag& flag : JobFlags()) {
    if (MayDiffer(flag.name)) continue;
    const JobField before = FieldOf(flag, &of_checkpoint), now = FieldOf(flag, &of_job);
    const std::string expected = FieldText(*before.message, *before.descriptor);
    const std::string got = FieldText(*now.message, *now.descriptor);
    if (expected != got) differences.push_back(DifferenceText(flag.name, expected, got));
  }
  const uint64_t slice_bytes = SliceBytes(manifest.job().scheduler());
  if (SliceBytes(job.scheduler()) != slice_bytes) {
    differences.push_back(DifferenceText("slice_bytes", absl::StrCat(slice_bytes),
                                         absl::StrCat(SliceBytes(job.scheduler()))));
  }
  if (differences.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      folder, ": the checkpoint is of another job: ", absl::StrJoin(differences, "; "),
      ". The numbers of servers and of steps, transport, schedule (not slice_bytes), consistency, "
      "membership and paths may differ. To begin another job with these parameters, use capstan "
      "export and --initial"));
}

}  // namespace capstan
