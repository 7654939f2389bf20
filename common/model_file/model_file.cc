#include "common/model_file/model_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/input_file.h"
#include "common/base/little_endian.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/model_file/durable_file.h"
#include "common/model_file/table_tensors.h"
#include "common/routing/job_view.h"

namespace capstan {
namespace {

// The bytes of a file before its header.
constexpr uint64_t kLengthBytes = sizeof(uint64_t);
// Enough to tell what a file is.
constexpr uint64_t kBeginningBytes = 256;

// `beginning` has at least kLengthBytes.
uint64_t HeaderBytesIn(absl::string_view beginning) {
  return ReadLittleEndian<uint64_t>(reinterpret_cast<const uint8_t*>(beginning.data()));
}

// INVALID_ARGUMENT, with what the file is instead, unless it begins with the length of a header
// that lies in the file.
absl::Status CheckBeginning(absl::string_view beginning, uint64_t file_bytes) {
  const bool has_length = beginning.size() >= kLengthBytes;
  const bool has_header =
      beginning.substr(std::min<size_t>(kLengthBytes, beginning.size()), 1) == "{";
  const uint64_t header_bytes = has_length ? HeaderBytesIn(beginning) : 0;
  std::string got = OtherKind(beginning);
  const bool fits = has_length && header_bytes <= file_bytes - kLengthBytes;
  if (fits && (has_header || got.empty())) return absl::OkStatus();
  if (file_bytes == 0) {
    got = "an empty file: copy or download it again";
  } else if (has_header && header_bytes <= kMostSafetensorsHeaderBytes) {
    got = absl::StrCat(file_bytes, " bytes of one, with a header of ", header_bytes,
                       ": its end is missing; copy or download it again");
  } else if (got.empty()) {
    got = absl::StrCat(file_bytes,
                       " bytes that do not begin with the length of a header: save the model with "
                       "the safetensors library, as by safetensors.torch.save_file");
  }
  return absl::InvalidArgumentError(absl::StrCat("expected a safetensors file, got ", got));
}

// In the metadata of an unfinished file.
constexpr char kToken[] = "unfinished";

std::string HexText(uint64_t number) { return absl::StrFormat("%016x", number); }

Safetensors HeaderOf(const ModelOutput::Tables& tables, const std::vector<TableOfRows>& sparse,
                     const ModelOutput::Tables& state) {
  Safetensors header;
  for (const TableOfRows& table : sparse) {
    header.tensors.push_back({absl::StrCat(table.name, ".keys"), "I64", {table.rows}});
  }
  for (const auto* const dense : {&tables, &state}) {
    for (const v1::TableSpec& table : WholeTensors(*dense)) {
      header.tensors.push_back({table.name(), "F32", {table.shape().begin(), table.shape().end()}});
    }
  }
  for (const TableOfRows& table : sparse) {
    header.tensors.push_back({absl::StrCat(table.name, ".values"), "F32", {table.rows, table.dim}});
    if (table.state_floats == 0) continue;
    header.tensors.push_back(
        {absl::StrCat(table.name, ".state"), "F32", {table.rows, table.state_floats}});
  }
  return header;
}

// INVALID_ARGUMENT, naming the tensor, if two have one name: a table may be called like another
// one's keys.
absl::Status CheckNames(const Safetensors& header) {
  absl::flat_hash_set<absl::string_view> names;
  for (const Safetensors::Tensor& tensor : header.tensors) {
    if (names.insert(tensor.name).second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("expected tables whose tensors have distinct names, got two called ",
                     ShortPrintableText(tensor.name)));
  }
  return absl::OkStatus();
}

// Whether the open file still has its name. Another process may have removed it, or published it.
bool HasItsName(const OpenFile& file) {
  struct stat opened, named;
  return fstat(file.descriptor(), &opened) == 0 && stat(file.path().c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

class CreatedModelFile : public ModelOutput {
 public:
  CreatedModelFile(std::string path, OpenFile file, uint64_t token)
      : path_(std::move(path)), file_(std::move(file)), token_(token) {}
  ~CreatedModelFile() override {
    if (!is_published_ && HasItsName(file_)) unlink(file_.path().c_str());
  }

  uint64_t token() const override { return token_; }

  absl::Status Begin(const Tables& tables, const std::vector<TableOfRows>& sparse,
                     const Tables& state) override {
    header_ = HeaderOf(tables, sparse, state);
    RETURN_IF_ERROR(Annotate(CheckNames(header_), path_));
    for (const v1::TableSpec& table : tables) table_bytes_ += ElementCount(table) * sizeof(float);
    uint64_t rest_bytes = 0;
    for (const v1::TableSpec& tensor : WholeTensors(state))
      rest_bytes += ElementCount(tensor) * sizeof(float);
    for (const TableOfRows& table : sparse) {
      key_bytes_ += table.rows * sizeof(uint64_t);
      rest_bytes += table.rows * (table.dim + table.state_floats) * sizeof(float);
    }
    header_.metadata = {{kToken, HexText(token_)}};
    header_bytes_ = EncodeSafetensorsHeader(header_).size() + kRoomForMetadata;
    const std::string encoded = EncodeSafetensorsHeader(header_, header_bytes_);
    header_bytes_ = encoded.size();
    if (header_bytes_ > kMostSafetensorsHeaderBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(file_.path(), ": expected names and shapes of tables in at most ",
                       kMostSafetensorsHeaderBytes, " bytes, got ", header_bytes_));
    }
    RETURN_IF_ERROR(file_.TakeRoom(header_bytes_ + key_bytes_ + table_bytes_ + rest_bytes));
    RETURN_IF_ERROR(file_.WriteAt(0, encoded.data(), encoded.size()));
    // Other machines see it from now on.
    return file_.Sync();
  }

  absl::Status Publish(const Metadata& metadata, std::optional<uint64_t> parameters_xxh3) override {
    ASSIGN_OR_RETURN(const uint64_t hash, file_.HashAt(header_bytes_ + key_bytes_, table_bytes_));
    if (parameters_xxh3.has_value() && hash != *parameters_xxh3) {
      return absl::DataLossError(absl::StrCat(
          file_.path(), ": expected parameters with the XXH3-64 ", HexText(*parameters_xxh3),
          ", as they were evaluated, got ", HexText(hash),
          "; not all servers have written into this file: choose a folder that they share"));
    }
    header_.metadata = metadata;
    header_.metadata["parameters_xxh3"] = HexText(hash);
    const std::string header = EncodeSafetensorsHeader(header_, header_bytes_);
    if (header.size() != header_bytes_) {
      return absl::InternalError(absl::StrCat(file_.path(), ": expected metadata of at most ",
                                              kRoomForMetadata, " bytes"));
    }
    RETURN_IF_ERROR(file_.WriteAt(0, header.data(), header.size()));
    RETURN_IF_ERROR(file_.Sync());
    if (!HasItsName(file_)) {
      return absl::DataLossError(
          absl::StrCat(file_.path(),
                       ": expected the file that this job has written, but it was "
                       "removed or replaced; leave it alone while the job runs"));
    }
    if (std::rename(file_.path().c_str(), path_.c_str()) != 0) {
      return FileError(path_, "to put the complete file there");
    }
    is_published_ = true;
    return SyncFolder(FolderOf(path_));
  }

 private:
  static constexpr uint64_t kRoomForMetadata = 2048;

  const std::string path_;
  const OpenFile file_;
  const uint64_t token_;
  Safetensors header_;
  uint64_t header_bytes_ = 0;
  uint64_t key_bytes_ = 0;    // of sparse tables; they follow the header
  uint64_t table_bytes_ = 0;  // of dense ones, which follow the keys
  bool is_published_ = false;
};

}  // namespace

std::string UnfinishedModelPath(const std::string& path) {
  return absl::StrCat(path, kUnfinishedSuffix);
}

absl::StatusOr<std::unique_ptr<ModelOutput>> CreateModelFile(const std::string& path,
                                                             uint64_t token, bool takes_over) {
  struct stat status;
  if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected the path of a file, got a folder or a device"));
  }
  while (true) {
    // Through a link it would empty somebody's file.
    ASSIGN_OR_RETURN(OpenFile file,
                     OpenFile::Open(UnfinishedModelPath(path), O_RDWR | O_CREAT | O_NOFOLLOW));
    if (fstat(file.descriptor(), &status) == 0 && status.st_nlink > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.path(), ": expected no such file, got a link; remove it"));
    }
    // Ends with this process, however it ends.
    if (flock(file.descriptor(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return FileError(file.path(), "to lock it");
      if (takes_over && unlink(file.path().c_str()) == 0) continue;
      return absl::AbortedError(
          absl::StrCat(file.path(), ": another job is writing this file; choose another name"));
    }
    if (!HasItsName(file)) continue;
    if (ftruncate(file.descriptor(), 0) != 0) return FileError(file.path(), "to empty it");
    return std::make_unique<CreatedModelFile>(path, std::move(file), token);
  }
}

absl::StatusOr<Safetensors> ReadSafetensorsHeader(const OpenFile& file) {
  ASSIGN_OR_RETURN(const uint64_t file_bytes, file.SizeBytes());
  std::string beginning(std::min<uint64_t>(file_bytes, kBeginningBytes), '\0');
  RETURN_IF_ERROR(file.ReadAt(0, beginning.data(), beginning.size()));
  RETURN_IF_ERROR(Annotate(CheckBeginning(beginning, file_bytes), file.path()));
  const uint64_t header_bytes = HeaderBytesIn(beginning);
  if (header_bytes > kMostSafetensorsHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat(file.path(), ": expected a header of at most ",
                                                   kMostSafetensorsHeaderBytes, " bytes, got ",
                                                   header_bytes));
  }
  std::string json(header_bytes, '\0');
  RETURN_IF_ERROR(file.ReadAt(kLengthBytes, json.data(), json.size()));
  absl::StatusOr<Safetensors> header = DecodeSafetensorsHeader(json, file_bytes);
  if (!header.ok()) return Annotate(header.status(), file.path());
  return header;
}

ModelTables::ModelTables(OpenFile file, Safetensors header)
    : file_(std::move(file)), header_(std::move(header)) {
  for (const Safetensors::Tensor& tensor : header_.tensors) tensors_.emplace(tensor.name, &tensor);
}

absl::StatusOr<std::unique_ptr<ModelTables>> ModelTables::Open(const std::string& path) {
  ASSIGN_OR_RETURN(OpenFile file, OpenFile::Open(path, O_RDONLY));
  ASSIGN_OR_RETURN(std::unique_ptr<ModelTables> tables, Read(std::move(file)));
  if (tables->header().metadata.count(kToken) == 0) return tables;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": expected a model, got the file of a job that has not ended"));
}

absl::StatusOr<std::unique_ptr<ModelTables>> ModelTables::Read(OpenFile file) {
  ASSIGN_OR_RETURN(Safetensors header, ReadSafetensorsHeader(file));
  return std::unique_ptr<ModelTables>(new ModelTables(std::move(file), std::move(header)));
}

absl::Status ModelTables::CheckTables(const ModelOutput::Tables& tables) {
  RETURN_IF_ERROR(Annotate(CheckTableTensors(header_, tables), file_.path()));
  absl::flat_hash_map<std::string, uint64_t> ends;  // of what comes next of a tensor
  for (const v1::TableSpec& table : tables) {
    if (table.tensor().empty()) continue;
    uint64_t& end =
        ends.try_emplace(table.tensor(), tensors_.at(table.tensor())->offset).first->second;
    places_[table.name()] = end;
    if (!table.shape().empty()) end += ElementCount(table) * sizeof(float);
  }
  return absl::OkStatus();
}

absl::Status ModelTables::CheckToken(uint64_t token) const {
  const auto found = header_.metadata.find(kToken);
  if (found != header_.metadata.end() && found->second == HexText(token)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(file_.path(), ": expected the file that the coordinator has made, got another"));
}

uint64_t ModelTables::PlaceOf(absl::string_view table, uint64_t offset) const {
  const auto place = places_.find(table);
  const uint64_t begin = place == places_.end() ? tensors_.at(table)->offset : place->second;
  return begin + offset * sizeof(float);
}

absl::Status ModelTables::ReadValues(absl::string_view table, uint64_t offset,
                                     absl::Span<float> values) const {
  return file_.ReadAt(PlaceOf(table, offset), values.data(), values.size() * sizeof(float));
}

absl::Status ModelTables::WriteValues(absl::string_view table, uint64_t offset,
                                      absl::Span<const float> values) const {
  return file_.WriteAt(PlaceOf(table, offset), values.data(), values.size() * sizeof(float));
}

absl::StatusOr<ModelTables::Rows> ModelTables::ReadRows(absl::string_view table) const {
  const Safetensors::Tensor& keys = *tensors_.at(absl::StrCat(table, ".keys"));
  const Safetensors::Tensor& values = *tensors_.at(absl::StrCat(table, ".values"));
  Rows rows;
  try {
    rows.keys.resize(keys.bytes / sizeof(uint64_t));
    rows.values.resize(values.bytes / sizeof(float));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(file_.path(),
                                                     ": there is not enough memory for ",
                                                     keys.bytes + values.bytes, " bytes of rows"));
  }
  RETURN_IF_ERROR(file_.ReadAt(keys.offset, rows.keys.data(), keys.bytes));
  RETURN_IF_ERROR(file_.ReadAt(values.offset, rows.values.data(), values.bytes));
  return rows;
}

absl::Status ModelTables::WriteRows(const TableOfRows& table, uint64_t first,
                                    absl::Span<const uint64_t> keys, absl::Span<const float> values,
                                    absl::Span<const float> state) const {
  const uint64_t place = tensors_.at(absl::StrCat(table.name, ".keys"))->offset;
  RETURN_IF_ERROR(
      file_.WriteAt(place + first * sizeof(uint64_t), keys.data(), keys.size() * sizeof(uint64_t)));
  RETURN_IF_ERROR(WriteValues(absl::StrCat(table.name, ".values"), first * table.dim, values));
  if (state.empty()) return absl::OkStatus();
  return WriteValues(absl::StrCat(table.name, ".state"), first * table.state_floats, state);
}

}  // namespace capstan
