#include "server/shard/compare_copies.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/replica.pb.h"
#include "server/replication/copied_slice.h"
#include "server/shard/shard_members.h"

namespace capstan {
namespace {

std::string BytesOf(const Payload& payload) {
  std::string bytes;
  for (const Payload::Fragment part : payload.fragments()) {
    bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
  }
  return bytes;
}

// All that a copy of the slice has.
struct Written {
  std::string change;
  std::string text;
  std::string floats;
  std::string rows;
};

// Drops the restored states: a worker's pushes end them, kept or not.
void DropRestored(Slice::Copy& copy) {
  const Payload bytes = copy.rest_bytes;
  PayloadReader reader(bytes);
  copy.rest_bytes = Payload();
  const auto take = [&reader](const v1::StateOfWorker& state) {
    return reader.Take(state.bytes()).value();
  };
  for (v1::CollectedStates& states : *copy.rest.mutable_states()) {
    for (const v1::StateOfWorker& state : states.final()) copy.rest_bytes.Append(take(state));
    for (const v1::StateOfWorker& state : states.restored()) take(state);
    states.clear_restored();
  }
  copy.rest_bytes.Append(reader.Take(reader.left()).value());
}

Written Write(SliceKey key, const Slice& slice) {
  Slice::Copy copy = slice.MakeCopy();
  // Pulls raise it, and no change follows.
  copy.snapshot.largest_step = Step();
  Written written;
  if (copy.snapshot.rows != nullptr) {
    auto rows = std::make_shared<SparseRowsSnapshot>(*copy.snapshot.rows);
    if (rows->last_touch.empty()) rows->last_step = Step();
    copy.snapshot.rows = rows;
    Payload bytes;
    EncodeRows(key, *rows, /*is_last=*/true, &bytes);
    written.rows = BytesOf(bytes);
  }
  DropRestored(copy);
  Payload floats;
  const v1::ReplicaChange change = EncodeCopy(key, std::move(copy), &floats);
  written.change = change.SerializeAsString();
  written.text = change.ShortDebugString();
  written.floats = BytesOf(floats);
  return written;
}

}  // namespace

std::string DifferenceOf(const ShardContents& shard, const ShardContents& copy) {
  if (shard.slices.size() != copy.slices.size()) {
    return absl::StrCat(shard.slices.size(), " and ", copy.slices.size(), " slices");
  }
  for (const auto& [key, slice] : shard.slices) {
    const std::string name =
        absl::StrCat("slice ", key.table.value(), "/", key.slice.value(), ": ");
    const auto found = copy.slices.find(key);
    if (found == copy.slices.end()) return name + "not in the copy";
    const Written a = Write(key, *slice);
    const Written b = Write(key, *found->second);
    if (a.change != b.change) return absl::StrCat(name, a.text, "\nand in the copy\n", b.text);
    if (a.floats != b.floats) {
      const auto [first, other] = std::mismatch(a.floats.begin(), a.floats.end(), b.floats.begin());
      return absl::StrCat(name, "other floats from byte ", first - a.floats.begin(),
                          " on: ", a.text);
    }
    if (a.rows != b.rows) return name + "other rows";
  }
  std::string members[2];
  std::string collectives[2];
  for (int i = 0; i < 2; ++i) {
    const ShardContents& contents = i == 0 ? shard : copy;
    v1::ShardMembers list;
    for (const auto& [id, worker] : contents.workers) SaveMember(worker, list.add_workers());
    members[i] = list.ShortDebugString();
    v1::CollectivesState state;
    contents.collectives.Save(&state);
    collectives[i] = state.ShortDebugString();
  }
  if (members[0] != members[1]) return absl::StrCat(members[0], "\nand\n", members[1]);
  if (collectives[0] == collectives[1]) return "";
  return absl::StrCat("operations ", collectives[0], "\nand\n", collectives[1]);
}

}  // namespace capstan
