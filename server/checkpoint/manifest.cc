#include "server/checkpoint/manifest.h"

#include <fcntl.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <cerrno>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/job/job_properties.h"
#include "common/job/validate_job.h"
#include "common/model_file/model_file.h"
#include "common/routing/placement.h"
#include "common/routing/table_check.h"
#include "server/optimizer/table_optimizers.h"

namespace capstan {
namespace {

using ::google::protobuf::Message;
using ::google::protobuf::TextFormat;

constexpr uint32_t kFormatVersion = 1;
constexpr absl::string_view kFormatField = "format_version: ";
// Enough for the files of all shards. It bounds the memory for parsing a hostile one.
constexpr uint64_t kMostManifestBytes = 64 << 20;
constexpr char kChecksum[] = "# XXH3-64 of the lines above: ";
// So that nobody's arithmetic on steps overflows.
constexpr int64_t kMostSteps = int64_t{1} << 62;

std::string ChecksumLine(absl::string_view text) {
  return absl::StrCat(kChecksum, absl::StrFormat("%016x", XXH3_64bits(text.data(), text.size())),
                      "\n");
}

class HexPrinter : public TextFormat::FastFieldValuePrinter {
 public:
  void PrintUInt64(uint64_t value, TextFormat::BaseTextGenerator* out) const override {
    out->PrintString(absl::StrFormat("0x%016x", value));
  }
};

// Prints a ShardFile on one line.
class ShardFilePrinter : public TextFormat::FastFieldValuePrinter {
 public:
  ShardFilePrinter() {
    line_.SetSingleLineMode(true);
    line_.RegisterFieldValuePrinter(v1::ShardFile::descriptor()->FindFieldByName("xxh3"),
                                    new HexPrinter);  // takes it over
  }
  void PrintMessageStart(const Message&, int, int, bool,
                         TextFormat::BaseTextGenerator* out) const override {
    out->PrintLiteral(" { ");
  }
  bool PrintMessageContent(const Message& file, int, int, bool,
                           TextFormat::BaseTextGenerator* out) const override {
    std::string text;
    line_.PrintToString(file, &text);
    out->PrintString(text);
    return true;
  }
  void PrintMessageEnd(const Message&, int, int, bool,
                       TextFormat::BaseTextGenerator* out) const override {
    out->PrintLiteral("}\n");
  }

 private:
  TextFormat::Printer line_;
};

// Keeps the first error of a parser, which counts lines and columns from 0.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (!text_.empty()) return;
    text_ = absl::StrCat(line + 1, ":", column + 1, ": ", PrintableText(message));
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

absl::Status Unexpected(absl::string_view expected, absl::string_view got) {
  return absl::InvalidArgumentError(absl::StrCat("expected ", expected, ", got ", got));
}

bool IsStep(int64_t step) { return 0 <= step && step <= kMostSteps; }

absl::Status CheckSteps(const v1::CheckpointManifest& manifest) {
  if (!IsStep(manifest.step()) || !IsStep(manifest.end_step()) ||
      manifest.end_step() < manifest.step() || manifest.steps_total() < 0) {
    return Unexpected(
        "0 <= step <= end_step <= 2^62 and 0 <= steps_total",
        absl::StrCat(manifest.step(), ", ", manifest.end_step(), " and ", manifest.steps_total()));
  }
  for (const v1::CheckpointWorker& worker : manifest.workers()) {
    if (IsStep(worker.first_step())) continue;
    return Unexpected("first steps of workers from 0 to 2^62", absl::StrCat(worker.first_step()));
  }
  const double seconds = manifest.training_seconds();
  if (std::isfinite(seconds) && seconds >= 0) return absl::OkStatus();
  return Unexpected("0 or more training_seconds", absl::StrCat(seconds));
}

absl::Status CheckPeriods(const v1::CheckpointManifest& manifest) {
  int64_t last = -1;
  for (const v1::ConsistencyPeriod& period : manifest.consistency()) {
    const bool is_first = last < 0;
    if (!IsStep(period.first_step()) || (is_first && period.first_step() != 0) ||
        period.first_step() <= last) {
      return Unexpected("a consistency from step 0 on, and each change after the one before",
                        absl::StrCat("one from step ", period.first_step(), " on"));
    }
    last = period.first_step();
    RETURN_IF_ERROR(ValidateConsistency(period.consistency()));
    RETURN_IF_ERROR(CheckTableStaleness(period.consistency(), manifest.tables()));
  }
  return last >= 0 ? absl::OkStatus() : Unexpected("a consistency", "none");
}

// `elements` are the numbers of elements of the tables.
absl::Status CheckFiles(const v1::CheckpointManifest& manifest,
                        const std::vector<uint64_t>& elements) {
  const v1::JobSpec& job = manifest.job();
  const ShardMap map(elements, SliceBytes(job.scheduler()), job.cluster().shard_count());
  int file = 0;
  for (uint32_t shard = 0; shard < job.cluster().shard_count(); ++shard) {
    if (map.SlicesOf(ShardId(shard)).empty()) continue;
    if (file < manifest.files_size() && manifest.files(file).shard() == shard) {
      ++file;
      continue;
    }
    return Unexpected(absl::StrCat("the file of shard ", shard),
                      file < manifest.files_size()
                          ? absl::StrCat("that of ", manifest.files(file).shard())
                          : "none");
  }
  if (file == manifest.files_size()) return absl::OkStatus();
  return Unexpected(absl::StrCat("the files of ", file, " shards with parameters"),
                    absl::StrCat(manifest.files_size()));
}

// INVALID_ARGUMENT if the fields contradict each other.
absl::Status CheckFields(const v1::CheckpointManifest& manifest) {
  const v1::JobSpec& job = manifest.job();
  RETURN_IF_ERROR(Annotate(ValidateJob(job), "its job"));
  if (static_cast<uint32_t>(manifest.workers_size()) != job.cluster().num_workers()) {
    return Unexpected(absl::StrCat(job.cluster().num_workers(), " workers, as the job has"),
                      absl::StrCat(manifest.workers_size()));
  }
  if (manifest.tables().empty()) return Unexpected("the job's tables", "none");
  ASSIGN_OR_RETURN(const std::vector<uint64_t> elements,
                   CheckTables(manifest.tables(), SliceBytes(job.scheduler())));
  RETURN_IF_ERROR(CheckOwnArrays(manifest.own_arrays(), MostPushArrays(job.codec()), elements,
                                 SliceBytes(job.scheduler())));
  RETURN_IF_ERROR(CheckTableCodecs(job.codec(), manifest.tables()));
  RETURN_IF_ERROR(CheckTableOptimizers(job, manifest.tables()));
  RETURN_IF_ERROR(CheckSteps(manifest));
  RETURN_IF_ERROR(CheckPeriods(manifest));
  return CheckFiles(manifest, elements);
}

// The text without its last line, which has its checksum.
absl::StatusOr<absl::string_view> CheckedBody(absl::string_view text) {
  const size_t checksum = text.rfind(kChecksum);
  const absl::string_view body = text.substr(0, checksum);
  if (checksum != text.npos && text.substr(checksum) == ChecksumLine(body)) return body;
  return absl::DataLossError(
      absl::StrCat("expected a manifest that ends in a line with the checksum of the others, got ",
                   checksum == text.npos ? "none" : "another checksum",
                   "; it is damaged, was edited or is no manifest: use another checkpoint"));
}

// Nothing else is read before: another format may have any other text.
absl::Status CheckFormat(absl::string_view body) {
  uint32_t version = 0;
  const bool has_version = absl::ConsumePrefix(&body, kFormatField) &&
                           absl::SimpleAtoi(body.substr(0, body.find('\n')), &version);
  if (!has_version) return Unexpected("the manifest of a checkpoint", "another text");
  if (version == kFormatVersion) return absl::OkStatus();
  return Unexpected(
      absl::StrCat("format ", kFormatVersion),
      absl::StrCat("format ", version, "; use the version of Capstan that wrote the checkpoint"));
}

absl::StatusOr<v1::CheckpointManifest> Decode(absl::string_view text) {
  ASSIGN_OR_RETURN(const absl::string_view body, CheckedBody(text));
  RETURN_IF_ERROR(CheckFormat(body));
  FirstError error;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  v1::CheckpointManifest manifest;
  if (!parser.ParseFromString(std::string(body), &manifest)) {
    return Unexpected("fields that this version of Capstan knows",
                      absl::StrCat("something else at ", error.text(),
                                   " Use the version that wrote the checkpoint"));
  }
  RETURN_IF_ERROR(CheckFields(manifest));
  return manifest;
}

}  // namespace

std::string ShardFileName(uint32_t shard) {
  return absl::StrFormat("shard-%05d.safetensors", shard);
}

std::string EncodeManifest(const v1::CheckpointManifest& manifest) {
  v1::CheckpointManifest written = manifest;
  written.set_format_version(kFormatVersion);
  TextFormat::Printer printer;
  printer.SetUseShortRepeatedPrimitives(true);
  printer.RegisterFieldValuePrinter(v1::CheckpointManifest::descriptor()->FindFieldByName("files"),
                                    new ShardFilePrinter);  // takes it over
  std::string text;
  printer.PrintToString(written, &text);
  absl::StrAppend(&text, ChecksumLine(text));
  return text;
}

uint64_t HashManifest(const v1::CheckpointManifest& manifest) {
  const std::string text = EncodeManifest(manifest);
  return XXH3_64bits(text.data(), text.size());
}

absl::StatusOr<v1::CheckpointManifest> DecodeManifest(absl::string_view text,
                                                      const std::string& path) {
  absl::StatusOr<v1::CheckpointManifest> manifest = Decode(text);
  if (!manifest.ok()) return Annotate(manifest.status(), path);
  return manifest;
}

bool IsRemoved(const std::string& folder) {
  struct stat status;
  const std::string path = absl::StrCat(folder, "/", kManifestFile);
  return stat(path.c_str(), &status) != 0 && errno == ENOENT;
}

absl::StatusOr<v1::CheckpointManifest> ReadManifest(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kManifestFile);
  absl::StatusOr<OpenFile> file = OpenFile::Open(path, O_RDONLY);
  if (absl::IsNotFound(file.status())) {
    struct stat status;
    const bool has_folder = stat(folder.c_str(), &status) == 0;
    return absl::NotFoundError(
        absl::StrCat(path, ": expected the folder of a complete checkpoint, got ",
                     has_folder ? "one without this file" : "no folder",
                     "; capstan checkpoint --list=DIR names the complete checkpoints in a folder"));
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

}  // namespace capstan
