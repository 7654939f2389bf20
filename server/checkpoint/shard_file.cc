#include "server/checkpoint/shard_file.h"

#include <xxhash.h>

#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/model_file/safetensors.h"
#include "common/tensor/host_buffer.h"
#include "server/checkpoint/shard_blocks.h"

namespace capstan {
namespace {

constexpr char kBlocks[] = "shard";

// Calls `visit` with the name and the floats of each array of a slice, in the order of the file.
// `Slice` is a snapshot, const or not.
template <typename Slice, typename Visit>
absl::Status ForEachArray(Slice& slice, absl::Span<const std::string> table_names, Visit visit) {
  const std::string prefix =
      absl::StrCat(table_names[slice.key.table.value()], "/", slice.key.slice.value(), "/");
  RETURN_IF_ERROR(visit(absl::StrCat(prefix, "values"), slice.values));
  for (size_t i = 0; i < slice.optimizer_state.size(); ++i) {
    RETURN_IF_ERROR(visit(absl::StrCat(prefix, "optimizer.", i), slice.optimizer_state[i]));
  }
  for (auto& push : slice.kept) {
    RETURN_IF_ERROR(visit(
        absl::StrCat(prefix, "kept.", push.step.value(), ".", push.worker.value()), push.gradient));
  }
  return absl::OkStatus();
}

// Writes a file from its beginning, and hashes what it writes.
class HashedFile {
 public:
  explicit HashedFile(const OpenFile& file)
      : file_(file), state_(XXH3_createState(), &XXH3_freeState) {
    XXH3_64bits_reset(state_.get());
  }

  absl::Status Append(const void* data, size_t bytes) {
    XXH3_64bits_update(state_.get(), data, bytes);
    RETURN_IF_ERROR(file_.WriteAt(end_, data, bytes));
    end_ += bytes;
    return absl::OkStatus();
  }
  uint64_t hash() const { return XXH3_64bits_digest(state_.get()); }

 private:
  const OpenFile& file_;
  uint64_t end_ = 0;
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state_;
};

absl::Status WrongFile(const OpenFile& file, absl::string_view expected, absl::string_view got) {
  return absl::InvalidArgumentError(
      absl::StrCat(file.path(), ": expected a shard with ", expected, ", got ", got));
}

using Tensors = absl::flat_hash_map<std::string, const Safetensors::Tensor*>;

absl::StatusOr<ShardSnapshot> ReadBlocks(const OpenFile& file, const Tensors& tensors) {
  const auto blocks = tensors.find(kBlocks);
  if (blocks == tensors.end() || blocks->second->dtype != "U8") {
    return WrongFile(file, "a tensor \"shard\" of U8", "none");
  }
  std::string bytes(blocks->second->bytes, '\0');
  RETURN_IF_ERROR(file.ReadAt(blocks->second->offset, bytes.data(), bytes.size()));
  absl::StatusOr<ShardSnapshot> snapshot = DecodeShardBlocks(bytes);
  if (!snapshot.ok()) return Annotate(snapshot.status(), file.path());
  return snapshot;
}

// Reads an array of the slice. All arrays of a slice have one length.
absl::Status ReadArray(const OpenFile& file, const Tensors& tensors, const std::string& name,
                       const SliceSnapshot& slice, Payload& array) {
  const auto found = tensors.find(name);
  if (found == tensors.end() || found->second->dtype != "F32" || found->second->bytes == 0) {
    return WrongFile(file, absl::StrCat("a tensor ", PrintableText(name), " of F32"), "none");
  }
  const Safetensors::Tensor& tensor = *found->second;
  if (!slice.values.empty() && tensor.bytes != slice.values.size_bytes()) {
    return WrongFile(file,
                     absl::StrCat(slice.values.size_bytes(), " bytes in ", PrintableText(name)),
                     absl::StrCat(tensor.bytes));
  }
  ASSIGN_OR_RETURN(HostBuffer buffer, HostBuffer::Create(tensor.bytes / sizeof(float)));
  const auto owner = std::make_shared<HostBuffer>(std::move(buffer));
  RETURN_IF_ERROR(file.ReadAt(tensor.offset, owner->data(), tensor.bytes));
  array = Payload(std::as_const(*owner).span(), owner);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<uint64_t> WriteShardFile(const ShardSnapshot& snapshot,
                                        absl::Span<const std::string> table_names,
                                        const OpenFile& file) {
  const std::string blocks = EncodeShardBlocks(snapshot);
  Safetensors header;
  for (const SliceSnapshot& slice : snapshot.slices) {
    RETURN_IF_ERROR(ForEachArray(slice, table_names, [&](std::string name, const Payload& array) {
      header.tensors.push_back({std::move(name), "F32", {array.size_bytes() / sizeof(float)}});
      return absl::OkStatus();
    }));
  }
  header.tensors.push_back({kBlocks, "U8", {blocks.size()}});
  const std::string encoded = EncodeSafetensorsHeader(header);
  if (encoded.size() > kMostSafetensorsHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        file.path(), ": expected names of arrays in at most ", kMostSafetensorsHeaderBytes,
        " bytes, got ", encoded.size(), "; give the job more shards (--shard_count)"));
  }
  HashedFile hashed(file);
  RETURN_IF_ERROR(hashed.Append(encoded.data(), encoded.size()));
  for (const SliceSnapshot& slice : snapshot.slices) {
    RETURN_IF_ERROR(ForEachArray(slice, table_names, [&](const std::string&, const Payload& array) {
      for (const Payload::Fragment fragment : array.fragments()) {
        RETURN_IF_ERROR(hashed.Append(fragment.data(), fragment.size()));
      }
      return absl::OkStatus();
    }));
  }
  RETURN_IF_ERROR(hashed.Append(blocks.data(), blocks.size()));
  return hashed.hash();
}

absl::StatusOr<ShardSnapshot> ReadShardFile(OpenFile file,
                                            absl::Span<const std::string> table_names) {
  ASSIGN_OR_RETURN(const Safetensors header, ReadSafetensorsHeader(file));
  Tensors tensors;
  for (const Safetensors::Tensor& tensor : header.tensors) tensors.emplace(tensor.name, &tensor);
  ASSIGN_OR_RETURN(ShardSnapshot snapshot, ReadBlocks(file, tensors));
  size_t arrays = 0;
  for (SliceSnapshot& slice : snapshot.slices) {
    if (slice.key.table.value() >= table_names.size()) {
      return WrongFile(file, absl::StrCat("tables below ", table_names.size()),
                       absl::StrCat(slice.key.table.value()));
    }
    RETURN_IF_ERROR(ForEachArray(slice, table_names, [&](const std::string& name, Payload& array) {
      ++arrays;
      return ReadArray(file, tensors, name, slice, array);
    }));
  }
  if (arrays + 1 != header.tensors.size()) {
    return WrongFile(file, absl::StrCat(arrays + 1, " tensors"),
                     absl::StrCat(header.tensors.size()));
  }
  return snapshot;
}

}  // namespace capstan
