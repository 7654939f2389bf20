#include "server/checkpoint/shard_file.h"

#include <xxhash.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

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

// Calls `visit` with the name and the floats of each tensor of a slice, and with the number of
// arrays in it, in the order of the file. `Slice` is a snapshot, const or not.
template <typename Slice, typename Visit>
absl::Status ForEachTensor(Slice& slice, absl::Span<const std::string> table_names, Visit visit) {
  const std::string prefix =
      absl::StrCat(table_names[slice.key.table.value()], "/", slice.key.slice.value(), "/");
  RETURN_IF_ERROR(visit(absl::StrCat(prefix, "values"), slice.values, 1));
  for (size_t i = 0; i < slice.optimizer_state.size(); ++i) {
    RETURN_IF_ERROR(visit(absl::StrCat(prefix, "optimizer.", i), slice.optimizer_state[i], 1));
  }
  if (slice.copy.has_value()) {
    RETURN_IF_ERROR(visit(absl::StrCat(prefix, "copy"), slice.copy->values, 1));
  }
  for (auto& push : slice.kept) {
    if (push.is_empty) continue;
    RETURN_IF_ERROR(
        visit(absl::StrCat(prefix, "kept.", push.step.value(), ".", push.worker.value()),
              push.gradient, 1));
  }
  for (auto& own : slice.own) {
    RETURN_IF_ERROR(
        visit(absl::StrCat(prefix, "own.", own.worker.value()), own.arrays, slice.own_arrays));
  }
  return absl::OkStatus();
}

// Writes or reads a file from its beginning, and hashes its bytes.
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
  absl::Status Read(void* data, size_t bytes) {
    RETURN_IF_ERROR(file_.ReadAt(end_, data, bytes));
    XXH3_64bits_update(state_.get(), data, bytes);
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

// The contents of a file.
struct ReadTensors {
  absl::flat_hash_map<std::string, Payload> arrays;  // of float32, by name
  std::optional<std::string> blocks;
  size_t count = 0;
  uint64_t xxh3 = 0;
};

absl::StatusOr<Payload> ReadArray(uint64_t bytes, HashedFile& file) {
  ASSIGN_OR_RETURN(HostBuffer buffer, HostBuffer::Create(bytes / sizeof(float)));
  const auto owner = std::make_shared<HostBuffer>(std::move(buffer));
  auto* const memory = reinterpret_cast<uint8_t*>(owner->data());
  RETURN_IF_ERROR(file.Read(memory, bytes));
  return Payload::Exclusive({owner, memory}, bytes);
}

absl::StatusOr<ReadTensors> ReadAllTensors(const OpenFile& file) {
  ASSIGN_OR_RETURN(const Safetensors header, ReadSafetensorsHeader(file));
  HashedFile hashed(file);
  std::string other(header.header_bytes, '\0');
  RETURN_IF_ERROR(hashed.Read(other.data(), other.size()));
  ReadTensors tensors;
  tensors.count = header.tensors.size();
  // They follow each other without a gap.
  for (const Safetensors::Tensor& tensor : header.tensors) {
    if (tensor.dtype == "F32") {
      ASSIGN_OR_RETURN(tensors.arrays[tensor.name], ReadArray(tensor.bytes, hashed));
      continue;
    }
    other.assign(tensor.bytes, '\0');
    RETURN_IF_ERROR(hashed.Read(other.data(), other.size()));
    if (tensor.name == kBlocks && tensor.dtype == "U8") tensors.blocks = other;
  }
  tensors.xxh3 = hashed.hash();
  return tensors;
}

absl::StatusOr<ShardSnapshot> DecodeBlocks(const OpenFile& file, const ReadTensors& tensors) {
  if (!tensors.blocks.has_value()) return WrongFile(file, "a tensor \"shard\" of U8", "none");
  absl::StatusOr<ShardSnapshot> snapshot = DecodeShardBlocks(*tensors.blocks);
  if (!snapshot.ok()) return Annotate(snapshot.status(), file.path());
  return snapshot;
}

// Takes `count` arrays of the slice. All arrays of a slice have one length.
absl::Status TakeArrays(const OpenFile& file, const std::string& name, const SliceSnapshot& slice,
                        uint32_t count, ReadTensors& tensors, Payload& arrays) {
  const auto found = tensors.arrays.find(name);
  if (found == tensors.arrays.end() || found->second.empty()) {
    return WrongFile(file, absl::StrCat("a tensor ", PrintableText(name), " of F32"), "none");
  }
  const size_t bytes = found->second.size_bytes();
  const size_t expected = count * slice.values.size_bytes();
  if (!slice.values.empty() && bytes != expected) {
    return WrongFile(file, absl::StrCat(expected, " bytes in ", PrintableText(name)),
                     absl::StrCat(bytes));
  }
  arrays = std::exchange(found->second, {});
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<uint64_t> WriteShardFile(const ShardSnapshot& snapshot,
                                        absl::Span<const std::string> table_names,
                                        const OpenFile& file) {
  const std::string blocks = EncodeShardBlocks(snapshot);
  Safetensors header;
  for (const SliceSnapshot& slice : snapshot.slices) {
    RETURN_IF_ERROR(ForEachTensor(
        slice, table_names, [&](std::string name, const Payload& arrays, uint32_t count) {
          std::vector<uint64_t> shape = {arrays.size_bytes() / sizeof(float) / count};
          if (count > 1) shape.insert(shape.begin(), count);
          header.tensors.push_back({std::move(name), "F32", std::move(shape)});
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
    RETURN_IF_ERROR(
        ForEachTensor(slice, table_names, [&](const std::string&, const Payload& arrays, uint32_t) {
          for (const Payload::Fragment fragment : arrays.fragments()) {
            RETURN_IF_ERROR(hashed.Append(fragment.data(), fragment.size()));
          }
          return absl::OkStatus();
        }));
  }
  RETURN_IF_ERROR(hashed.Append(blocks.data(), blocks.size()));
  return hashed.hash();
}

absl::StatusOr<HashedShard> ReadShardFile(const OpenFile& file,
                                          absl::Span<const std::string> table_names) {
  ASSIGN_OR_RETURN(ReadTensors tensors, ReadAllTensors(file));
  HashedShard shard;
  shard.xxh3 = tensors.xxh3;
  ASSIGN_OR_RETURN(shard.snapshot, DecodeBlocks(file, tensors));
  size_t taken = 0;
  for (SliceSnapshot& slice : shard.snapshot.slices) {
    if (slice.key.table.value() >= table_names.size()) {
      return WrongFile(file, absl::StrCat("tables below ", table_names.size()),
                       absl::StrCat(slice.key.table.value()));
    }
    RETURN_IF_ERROR(ForEachTensor(slice, table_names,
                                  [&](const std::string& name, Payload& arrays, uint32_t count) {
                                    ++taken;
                                    return TakeArrays(file, name, slice, count, tensors, arrays);
                                  }));
  }
  if (taken + 1 == tensors.count) return shard;
  return WrongFile(file, absl::StrCat(taken + 1, " tensors"), absl::StrCat(tensors.count));
}

}  // namespace capstan
