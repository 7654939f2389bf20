#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/routing/key_shard.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/grpc_reader_client.h"
#include "deploy/cli/grpc_status_client.h"
#include "proto/checkpoint.pb.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/shard_storage.h"
#include "server/slice/shard_snapshot.h"

namespace capstan {
namespace {

// Most keys of one question to a server. The longest rows then fit into a message.
constexpr size_t kKeysAtATime = 512;

// A server's death is noticed within its lease, 10 s by default. Another one then has its shards.
constexpr absl::Duration kLongestSearch = absl::Seconds(30);
constexpr absl::Duration kPause = absl::Milliseconds(200);

using Tables = google::protobuf::RepeatedPtrField<v1::TableSpec>;
// Values of rows, in the order of the keys; empty: there is no row.
using Rows = std::vector<std::vector<float>>;

// The id of the sparse table of this name. INVALID_ARGUMENT, with the names, if there is none.
absl::StatusOr<TableId> FindTable(const Tables& tables, const std::string& name) {
  std::vector<std::string> sparse;
  for (int table = 0; table < tables.size(); ++table) {
    if (!tables[table].has_sparse()) continue;
    if (tables[table].name() == name) return TableId(static_cast<uint32_t>(table));
    sparse.push_back(PrintableText(tables[table].name()));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--table: expected a sparse table of the job, ",
                   sparse.empty() ? "but it has none (capstan export writes dense ones into a file)"
                                  : absl::StrCat("one of ", absl::StrJoin(sparse, ", ")),
                   ", got \"", name, "\""));
}

absl::Status ReadFromServer(const std::string& address, const GetOptions& options,
                            const std::vector<size_t>& places, Rows& rows) {
  GrpcReaderClient client(address, options.clock, options.security);
  for (size_t begin = 0; begin < places.size(); begin += kKeysAtATime) {
    const auto part = absl::MakeConstSpan(places).subspan(begin, kKeysAtATime);
    v1::ReadRowsRequest request;
    request.set_table(options.table);
    for (const size_t place : part) request.add_keys(options.keys[place].key);
    ASSIGN_OR_RETURN(const v1::ReadRowsReply reply, client.ReadRows(request));
    for (int i = 0; i < reply.rows_size(); ++i) {
      rows[part[static_cast<size_t>(i)]].assign(reply.rows(i).values().begin(),
                                                reply.rows(i).values().end());
    }
  }
  return absl::OkStatus();
}

// Reads the rows of the keys at `missing` from the servers that have them by this view, and removes
// them from `missing`. The errors of the servers.
absl::Status ReadMissing(const v1::JobView& view, const GetOptions& options,
                         std::vector<size_t>& missing, Rows& rows) {
  const auto shard_count = static_cast<uint32_t>(view.server_of_shard_size());
  std::map<uint32_t, std::vector<size_t>> places;  // of each server's keys
  for (const size_t place : missing) {
    const ShardId shard = ShardOfKey(options.keys[place].key, shard_count);
    places[view.server_of_shard(static_cast<int>(shard.value()))].push_back(place);
  }
  missing.clear();
  absl::Status status;
  for (const auto& [id, of_server] : places) {
    const auto server = std::find_if(view.servers().begin(), view.servers().end(),
                                     [id = id](const auto& info) { return info.server() == id; });
    absl::Status read = absl::UnavailableError(
        absl::StrCat("expected server ", id, " to be live, got a status of the job without it"));
    if (server != view.servers().end() && server->is_live()) {
      read = ReadFromServer(server->address(), options, of_server, rows);
    }
    if (!read.ok()) missing.insert(missing.end(), of_server.begin(), of_server.end());
    status.Update(read);
  }
  return status;
}

// A shard may have another server soon.
bool MayHaveMoved(const absl::Status& error, const v1::JobView& view) {
  const bool has_copies = view.copies_size() > 0;
  return has_copies && (absl::IsUnavailable(error) || absl::IsFailedPrecondition(error) ||
                        absl::IsDeadlineExceeded(error));
}

absl::StatusOr<Rows> ReadFromJob(const GetOptions& options) {
  GrpcStatusClient coordinator(options.coordinator, options.clock, options.security);
  const absl::Time end = options.clock->Now() + kLongestSearch;
  Rows rows(options.keys.size());
  std::vector<size_t> missing(rows.size());
  std::iota(missing.begin(), missing.end(), 0);
  while (true) {
    ASSIGN_OR_RETURN(const v1::GetStatusReply status, coordinator.GetStatus());
    const v1::JobView& view = status.view();
    if (view.server_of_shard().empty()) {
      return absl::UnavailableError("the job has no rows yet: it waits for its members");
    }
    RETURN_IF_ERROR(FindTable(view.tables(), options.table).status());
    const absl::Status read = ReadMissing(view, options, missing, rows);
    if (read.ok()) return rows;
    if (!MayHaveMoved(read, view)) return read;
    if (options.clock->Now() >= end) {
      return absl::Status(
          read.code(), absl::StrCat(read.message(), "; for ", absl::FormatDuration(kLongestSearch),
                                    " no other server has got its shards; capstan status shows "
                                    "which servers are live"));
    }
    SleepUntil(*options.clock, options.clock->Now() + kPause);
  }
}

// Only the files of the keys' shards are read, and each is verified.
absl::StatusOr<Rows> ReadFromCheckpoint(const std::string& path, const GetOptions& options) {
  ASSIGN_OR_RETURN(const v1::CheckpointManifest manifest, ReadManifest(path));
  ASSIGN_OR_RETURN(const TableId table, FindTable(manifest.tables(), options.table));
  std::vector<std::string> names;
  for (const v1::TableSpec& spec : manifest.tables()) names.push_back(spec.name());
  const uint32_t shard_count = manifest.job().cluster().shard_count();
  Rows rows(options.keys.size());
  for (const v1::ShardFile& file : manifest.files()) {
    std::optional<ShardSnapshot> shard;
    for (size_t i = 0; i < options.keys.size(); ++i) {
      const uint64_t key = options.keys[i].key;
      if (ShardOfKey(key, shard_count) != ShardId(file.shard())) continue;
      if (!shard.has_value()) {
        ASSIGN_OR_RETURN(shard, ReadVerifiedShard(path, file, names));
      }
      for (const SliceSnapshot& slice : shard->slices) {
        if (slice.key.table != table || slice.rows == nullptr) continue;
        const std::vector<uint64_t>& keys = slice.rows->keys;
        const auto found = std::lower_bound(keys.begin(), keys.end(), key);
        if (found == keys.end() || *found != key) continue;
        const float* const row =
            &slice.rows->values[static_cast<size_t>(found - keys.begin()) * slice.rows->dim];
        rows[i].assign(row, row + slice.rows->dim);
      }
    }
  }
  return rows;
}

absl::StatusOr<Rows> ReadRows(const GetOptions& options) {
  if (options.checkpoint.empty()) return ReadFromJob(options);
  while (true) {
    ASSIGN_OR_RETURN(const std::vector<std::string> found, CompleteCheckpoints(options.checkpoint));
    const std::string& newest = found.front();
    absl::StatusOr<Rows> rows = ReadFromCheckpoint(newest, options);
    if (rows.ok() || newest == options.checkpoint || !IsRemoved(newest)) return rows;
    // A job that runs has removed it, as there is a newer one.
  }
}

}  // namespace

absl::StatusOr<std::vector<RowKey>> ReadRowKeys(absl::string_view list) {
  std::vector<RowKey> keys;
  for (const absl::string_view text : absl::StrSplit(list, ',')) {
    uint64_t key = 0;
    int64_t with_sign = 0;
    if (absl::SimpleAtoi(text, &key)) {
      keys.push_back({std::string(text), key});
    } else if (absl::SimpleAtoi(text, &with_sign)) {
      keys.push_back({std::string(text), static_cast<uint64_t>(with_sign)});
    } else {
      return absl::InvalidArgumentError(absl::StrCat(
          "--row_keys: expected whole numbers of 64 bits with commas between them, such as "
          "7,-3,18446744073709551615, got \"",
          text, "\""));
    }
  }
  return keys;
}

absl::Status GetCommand(const GetOptions& options, std::ostream& out) {
  ASSIGN_OR_RETURN(const Rows rows, ReadRows(options));
  for (size_t i = 0; i < rows.size(); ++i) {
    out << "key " << options.keys[i].text << ":";
    if (rows[i].empty()) out << " no row";
    for (const float value : rows[i]) out << absl::StrFormat(" %.9g", value);
    out << "\n";
  }
  out << std::flush;
  return absl::OkStatus();
}

}  // namespace capstan
