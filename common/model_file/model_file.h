#ifndef COMMON_MODEL_FILE_MODEL_FILE_H_
#define COMMON_MODEL_FILE_MODEL_FILE_H_

#include <google/protobuf/repeated_field.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/model_file/open_file.h"
#include "common/model_file/safetensors.h"
#include "proto/coordinator_service.pb.h"

namespace capstan {

// A model in a file: its tables as float32 tensors of a safetensors file, in order of table id, and
// then the optimizer's state, if it is wanted. The keys of sparse tables lie before them, so that
// they are aligned; their rows come last.
// While it is written it has another name, UnfinishedModelPath. One process creates that file and
// writes the header. Several processes write tables into it, side by side. Then the first process
// gives the file its name. So a reader never sees half of a model.

// Where the file lies until it is complete.
std::string UnfinishedModelPath(const std::string& path);

// Reads the header of a safetensors file. INVALID_ARGUMENT: it is none.
absl::StatusOr<Safetensors> ReadSafetensorsHeader(const OpenFile& file);

// The rows of a sparse table in a file: the tensors NAME.keys (int64 [rows], the bits of the uint64
// keys), NAME.values (float32 [rows, dim]), and, if its optimizer has state, NAME.state (float32
// [rows, state_floats]).
struct TableOfRows {
  std::string name;
  uint64_t rows = 0;
  uint64_t dim = 0;
  uint64_t state_floats = 0;
};

// The file of a trained model, for the process that creates and completes it. Calls may take long.
// Not thread-safe.
class ModelOutput {
 public:
  using Tables = google::protobuf::RepeatedPtrField<v1::TableSpec>;
  using Metadata = std::map<std::string, std::string>;

  virtual ~ModelOutput() = default;
  // The number that ModelTables::CheckToken expects.
  virtual uint64_t token() const = 0;
  // Takes the room on the disk and writes a header. The tables' bytes come next, from others.
  // `tables` are dense, and `state` are the tensors of their optimizers' state, as tables.
  virtual absl::Status Begin(const Tables& tables, const std::vector<TableOfRows>& sparse,
                             const Tables& state) = 0;
  // All tables are written: gives the file its metadata and its name. An existing file is replaced
  // only now. DATA_LOSS if the XXH3-64 of all dense tables' bytes is another one: then nothing
  // changes. None: there is nothing to compare it with. The metadata get it as parameters_xxh3.
  virtual absl::Status Publish(const Metadata& metadata,
                               std::optional<uint64_t> parameters_xxh3) = 0;
};

// Creates the unfinished file of `path`. It is removed with the object, unless it was published.
// `token` is a random number. ABORTED: another process is writing the file; with `takes_over` that
// one is removed, and its process cannot publish it any more.
absl::StatusOr<std::unique_ptr<ModelOutput>> CreateModelFile(const std::string& path,
                                                             uint64_t token,
                                                             bool takes_over = false);

// The tables of a model file, by name. Thread-safe after CheckTables.
class ModelTables {
 public:
  // Opens a complete file for reading. INVALID_ARGUMENT: it is no safetensors file, or an
  // unfinished one.
  static absl::StatusOr<std::unique_ptr<ModelTables>> Open(const std::string& path);

  // Reads the header of an open file. Its errors are as above.
  static absl::StatusOr<std::unique_ptr<ModelTables>> Read(OpenFile file);

  const Safetensors& header() const { return header_; }

  // As CheckTableTensors; the errors name the file. Then the tables can be read and written.
  absl::Status CheckTables(const ModelOutput::Tables& tables);

  // FAILED_PRECONDITION unless this is the unfinished file of the ModelOutput with this token.
  absl::Status CheckToken(uint64_t token) const;

  // Elements of a table that CheckTables has accepted, from the element `offset` on.
  absl::Status ReadValues(absl::string_view table, uint64_t offset, absl::Span<float> values) const;
  absl::Status WriteValues(absl::string_view table, uint64_t offset,
                           absl::Span<const float> values) const;
  // All rows of a sparse table that CheckTables has accepted. RESOURCE_EXHAUSTED: there is no
  // memory for them. A key may be there twice.
  struct Rows {
    std::vector<uint64_t> keys;
    std::vector<float> values;
  };
  absl::StatusOr<Rows> ReadRows(absl::string_view table) const;
  // Writes rows of a sparse table, from its row `first` on. The spans are as long as the rows say.
  absl::Status WriteRows(const TableOfRows& table, uint64_t first, absl::Span<const uint64_t> keys,
                         absl::Span<const float> values, absl::Span<const float> state) const;
  absl::Status Sync() const { return file_.Sync(); }

 private:
  ModelTables(OpenFile file, Safetensors header);

  // Returns where the table's element `offset` begins in the file, in bytes.
  uint64_t PlaceOf(absl::string_view table, uint64_t offset) const;

  const OpenFile file_;
  const Safetensors header_;
  absl::flat_hash_map<std::string, const Safetensors::Tensor*> tensors_;  // by name
  absl::flat_hash_map<std::string, uint64_t> places_;  // of tables that are rows of a tensor
};

}  // namespace capstan

#endif  // COMMON_MODEL_FILE_MODEL_FILE_H_
