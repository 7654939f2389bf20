#include <fcntl.h>
#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "common/base/printable_text.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/job/job_properties.h"
#include "common/model_file/model_file.h"
#include "common/routing/job_view.h"
#include "common/tensor/slicing.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/text/number_text.h"
#include "proto/checkpoint.pb.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/read_checkpoint.h"
#include "server/checkpoint/write_dense_slice.h"
#include "server/optimizer/state_tensors.h"
#include "server/slice/shard_snapshot.h"

namespace capstan {
namespace {

// Where the rows of a checkpoint go in a file of its model.
struct RowPlaces {
  std::vector<TableOfRows> tables;                 // the sparse ones, in order of table id
  absl::flat_hash_map<TableId, size_t> number_of;  // in `tables`
  absl::flat_hash_map<SliceKey, uint64_t> first;   // row of each slice
};

// The rows of shard 0 come first, in order of key, then those of shard 1, and so on.
absl::StatusOr<RowPlaces> FindRowPlaces(const std::string& checkpoint,
                                        const v1::CheckpointManifest& manifest) {
  RowPlaces places;
  for (int table = 0; table < manifest.tables_size(); ++table) {
    if (!manifest.tables(table).has_sparse()) continue;
    places.number_of[TableId(table)] = places.tables.size();
    places.tables.push_back({manifest.tables(table).name()});
  }
  if (places.tables.empty()) return places;
  RETURN_IF_ERROR(ReadAllShards(checkpoint, manifest, [&places](const ShardSnapshot& shard) {
    for (const SliceSnapshot& slice : shard.slices) {
      if (slice.rows == nullptr) continue;
      TableOfRows& table = places.tables[places.number_of.at(slice.key.table)];
      places.first[slice.key] = table.rows;
      table.rows += slice.rows->keys.size();
      table.dim = slice.rows->dim;
      table.state_floats = slice.rows->state_floats;
    }
    return absl::OkStatus();
  }));
  return places;
}

// Writes a slice into its place in its table. `state`: of each table, what of it is wanted.
absl::Status WriteSlice(const SliceSnapshot& slice, const v1::CheckpointManifest& manifest,
                        const RowPlaces& places, const std::vector<StateTensors>& state,
                        const ModelTables& model) {
  if (slice.rows != nullptr) {
    const SparseRowsSnapshot& rows = *slice.rows;
    return model.WriteRows(places.tables[places.number_of.at(slice.key.table)],
                           places.first.at(slice.key), rows.keys, rows.values, rows.state);
  }
  const v1::TableSpec& table = manifest.tables(static_cast<int>(slice.key.table.value()));
  const Slicing slicing(ElementCount(table), SliceBytes(manifest.job().scheduler()));
  return WriteDenseSlice(slice, table.name(), slicing.Range(slice.key.slice).offset,
                         state[slice.key.table.value()], model);
}

// The XXH3-64 of all dense tables in the file, in table and element order, as in a job's summary.
absl::StatusOr<uint64_t> HashOf(const ModelTables& model, const ModelOutput::Tables& tables) {
  constexpr uint64_t kBlockElements = 1 << 18;
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              &XXH3_freeState);
  XXH3_64bits_reset(state.get());
  std::vector<float> block;
  for (const v1::TableSpec& table : tables) {
    const uint64_t elements = table.has_sparse() ? 0 : ElementCount(table);
    for (uint64_t done = 0; done < elements; done += block.size()) {
      block.resize(std::min(kBlockElements, elements - done));
      RETURN_IF_ERROR(model.ReadValues(table.name(), done, absl::MakeSpan(block)));
      XXH3_64bits_update(state.get(), block.data(), block.size() * sizeof(float));
    }
  }
  return XXH3_64bits_digest(state.get());
}

// Writes the checkpoint's parameters into the unfinished file, and returns their hash. What it
// writes has been verified. The hash is of what lies in the file then. `tables` are all that it
// has, with those of the optimizers' state.
absl::StatusOr<uint64_t> WriteTables(const std::string& checkpoint,
                                     const v1::CheckpointManifest& manifest,
                                     const ModelOutput::Tables& tables, const RowPlaces& places,
                                     const std::vector<StateTensors>& state,
                                     const std::string& unfinished, uint64_t token) {
  ASSIGN_OR_RETURN(OpenFile file, OpenFile::Open(unfinished, O_RDWR));
  ASSIGN_OR_RETURN(const std::unique_ptr<ModelTables> model, ModelTables::Read(std::move(file)));
  RETURN_IF_ERROR(model->CheckToken(token));
  RETURN_IF_ERROR(model->CheckTables(tables));
  RETURN_IF_ERROR(ReadAllShards(checkpoint, manifest, [&](const ShardSnapshot& shard) {
    for (const SliceSnapshot& slice : shard.slices) {
      RETURN_IF_ERROR(WriteSlice(slice, manifest, places, state, *model));
    }
    return absl::OkStatus();
  }));
  return HashOf(*model, manifest.tables());
}

absl::Status Export(const std::string& path, const std::string& output, bool with_optimizer_state,
                    std::ostream& out) {
  ASSIGN_OR_RETURN(const v1::CheckpointManifest manifest, ReadManifest(path));
  const uint64_t token = SystemRandom();
  ASSIGN_OR_RETURN(const std::unique_ptr<ModelOutput> file, CreateModelFile(output, token));
  ModelOutput::Tables dense;
  for (const v1::TableSpec& table : manifest.tables()) {
    if (!table.has_sparse()) *dense.Add() = table;
  }
  ASSIGN_OR_RETURN(const RowPlaces places, FindRowPlaces(path, manifest));
  ModelOutput::Tables state_tables;
  if (with_optimizer_state) {
    absl::StatusOr<ModelOutput::Tables> made = StateTables(manifest.job(), manifest.tables());
    RETURN_IF_ERROR(Annotate(made.status(), "--optimizer_state"));
    state_tables = *std::move(made);
  }
  std::vector<StateTensors> state;  // by table
  for (const v1::TableSpec& table : manifest.tables()) {
    state.push_back(with_optimizer_state ? StateTensorsOf(manifest.job(), table) : StateTensors());
  }
  RETURN_IF_ERROR(file->Begin(dense, places.tables, state_tables));
  ModelOutput::Tables all = manifest.tables();
  all.MergeFrom(state_tables);
  ASSIGN_OR_RETURN(const uint64_t hash, WriteTables(path, manifest, all, places, state,
                                                    UnfinishedModelPath(output), token));
  RETURN_IF_ERROR(file->Publish({{"format", "capstan"},
                                 {"job", manifest.job().name()},
                                 {"step", absl::StrCat(manifest.step())}},
                                hash));
  out << PrintableText(output) << " has the parameters "
      << (with_optimizer_state ? "and the optimizer's state " : "") << "of job "
      << manifest.job().name() << " at " << StepText(manifest.step(), manifest.steps_total())
      << ", from " << PrintableText(path) << "\n";
  if (manifest.end_step() > manifest.step()) {
    out << "its parts are of different moments: some have updates of steps up to "
        << manifest.end_step() - 1 << "\n";
  }
  for (const TableOfRows& table : places.tables) {
    out << "table " << PrintableText(table.name) << " has " << CountText(table.rows)
        << (table.rows == 1 ? " row\n" : " rows\n");
  }
  out << "parameters_xxh3 " << absl::StrFormat("%016x", hash) << std::endl;
  return absl::OkStatus();
}

}  // namespace

absl::Status ExportCommand(const std::string& checkpoint, const std::string& output,
                           bool with_optimizer_state, std::ostream& out) {
  while (true) {
    ASSIGN_OR_RETURN(const std::vector<std::string> found, CompleteCheckpoints(checkpoint));
    const std::string& newest = found.front();
    absl::Status status = Export(newest, output, with_optimizer_state, out);
    if (status.ok() || newest == checkpoint || !IsRemoved(newest)) return status;
    // A job that runs has removed it, as there is a newer one.
  }
}

}  // namespace capstan
