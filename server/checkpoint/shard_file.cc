#include "server/checkpoint/shard_file.h"

#include <glog/logging.h>
#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <type_traits>
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

// What the files of shards have of a type.
template <typename Number>
constexpr absl::string_view Dtype() {
  if (std::is_same_v<Number, uint64_t>) return "I64";
  if (std::is_same_v<Number, uint32_t>) return "U32";
  return std::is_same_v<Number, float> ? "F32" : "U8";
}

std::string PrefixOf(SliceKey key, absl::Span<const std::string> table_names) {
  return absl::StrCat(table_names[key.table.value()], "/", key.slice.value(), "/");
}

std::string KeptName(const std::string& prefix, const SliceSnapshot::KeptPush& push) {
  return absl::StrCat(prefix, "kept.", push.step.value(), ".", push.worker.value());
}

// Calls `visit` with the name and the floats of each tensor of a slice of a dense table, and with
// the number of arrays in it, in the order of the file. `Slice` is a snapshot, const or not.
template <typename Slice, typename Visit>
absl::Status ForEachArray(Slice& slice, const std::string& prefix, Visit visit) {
  RETURN_IF_ERROR(visit(absl::StrCat(prefix, "values"), slice.values, 1));
  for (size_t i = 0; i < slice.optimizer_state.size(); ++i) {
    RETURN_IF_ERROR(visit(absl::StrCat(prefix, "optimizer.", i), slice.optimizer_state[i], 1));
  }
  if (slice.copy.has_value()) {
    RETURN_IF_ERROR(visit(absl::StrCat(prefix, "copy"), slice.copy->values, 1));
  }
  for (auto& push : slice.kept) {
    if (push.is_empty) continue;
    RETURN_IF_ERROR(visit(KeptName(prefix, push), push.gradient, 1));
  }
  for (auto& own : slice.own) {
    RETURN_IF_ERROR(
        visit(absl::StrCat(prefix, "own.", own.worker.value()), own.arrays, slice.own_arrays));
  }
  return absl::OkStatus();
}

// Calls `visit` with the name and the numbers of each tensor of rows, with how many of them are of
// one row (0: they are of no row), and whether it may lack. `Rows` is a snapshot, const or not.
template <typename Rows, typename Visit>
absl::Status ForEachVector(Rows& rows, const std::string& prefix, Visit visit) {
  RETURN_IF_ERROR(visit(absl::StrCat(prefix, "keys"), rows.keys, 1, false));
  RETURN_IF_ERROR(visit(absl::StrCat(prefix, "values"), rows.values, rows.dim, false));
  if (rows.state_floats > 0) {
    RETURN_IF_ERROR(visit(absl::StrCat(prefix, "state"), rows.state, rows.state_floats, false));
  }
  RETURN_IF_ERROR(visit(absl::StrCat(prefix, "last_touch"), rows.last_touch, 1, true));
  return visit(absl::StrCat(prefix, "sketch"), rows.sketch, 0, true);
}

// A tensor to write.
struct Tensor {
  std::string name;
  absl::string_view dtype;
  std::vector<uint64_t> shape;
  Payload bytes;
};

template <typename Number>
Tensor TensorOf(std::string name, const std::vector<Number>& numbers, size_t row_size,
                const std::shared_ptr<const void>& owner) {
  Payload bytes(owner);
  bytes.Append({reinterpret_cast<const uint8_t*>(numbers.data()), numbers.size() * sizeof(Number)});
  std::vector<uint64_t> shape = {numbers.size()};
  if (std::is_same_v<Number, float>) shape = {numbers.size() / row_size, row_size};
  return {std::move(name), Dtype<Number>(), std::move(shape), std::move(bytes)};
}

std::vector<Tensor> TensorsOfRows(const SliceSnapshot& slice, const std::string& prefix) {
  std::vector<Tensor> tensors;
  const absl::Status status =
      ForEachVector(*slice.rows, prefix,
                    [&](std::string name, const auto& numbers, size_t row_size, bool may_lack) {
                      if (may_lack && numbers.empty()) return absl::OkStatus();
                      tensors.push_back(TensorOf(std::move(name), numbers, row_size, slice.rows));
                      return absl::OkStatus();
                    });
  CHECK(status.ok()) << status;
  for (const SliceSnapshot::KeptPush& push : slice.kept) {
    if (push.is_empty) continue;
    const std::string name = KeptName(prefix, push);
    tensors.push_back({name, "F32", {push.keys->size(), slice.rows->dim}, push.gradient});
    tensors.push_back(TensorOf(absl::StrCat(name, ".keys"), *push.keys, 1, push.keys));
  }
  return tensors;
}

// All tensors of a slice, in the order of the file.
std::vector<Tensor> TensorsOf(const SliceSnapshot& slice,
                              absl::Span<const std::string> table_names) {
  const std::string prefix = PrefixOf(slice.key, table_names);
  if (slice.rows != nullptr) return TensorsOfRows(slice, prefix);
  std::vector<Tensor> tensors;
  const absl::Status status =
      ForEachArray(slice, prefix, [&](std::string name, const Payload& arrays, uint32_t count) {
        std::vector<uint64_t> shape = {arrays.size_bytes() / sizeof(float) / count};
        if (count > 1) shape.insert(shape.begin(), count);
        tensors.push_back({std::move(name), "F32", std::move(shape), arrays});
        return absl::OkStatus();
      });
  CHECK(status.ok()) << status;
  return tensors;
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

// The tensors of a file, until a slice takes them.
class ReadTensors {
 public:
  // RESOURCE_EXHAUSTED, and the errors of reading.
  static absl::StatusOr<ReadTensors> Read(const OpenFile& file) {
    ASSIGN_OR_RETURN(const Safetensors header, ReadSafetensorsHeader(file));
    ReadTensors tensors(file);
    HashedFile hashed(file);
    std::string skipped(header.header_bytes, '\0');
    RETURN_IF_ERROR(hashed.Read(skipped.data(), skipped.size()));
    // They follow each other without a gap.
    for (const Safetensors::Tensor& tensor : header.tensors) {
      ASSIGN_OR_RETURN(Payload bytes, ReadBytes(tensor.bytes, hashed));
      tensors.tensors_[tensor.name] = {tensor.dtype, std::move(bytes)};
    }
    tensors.xxh3_ = hashed.hash();
    return tensors;
  }

  uint64_t xxh3() const { return xxh3_; }
  size_t left() const { return tensors_.size(); }
  bool Has(const std::string& name) const { return tensors_.contains(name); }

  // Takes the bytes of a tensor, as they are. INVALID_ARGUMENT unless there is one of this dtype.
  absl::StatusOr<Payload> Take(const std::string& name, absl::string_view dtype) {
    const auto found = tensors_.find(name);
    if (found != tensors_.end() && found->second.dtype == dtype) {
      Payload bytes = std::move(found->second.bytes);
      tensors_.erase(found);
      return bytes;
    }
    return WrongFile(file_, absl::StrCat("a tensor ", PrintableText(name), " of ", dtype), "none");
  }
  // The same. INVALID_ARGUMENT if it has another size.
  absl::StatusOr<Payload> Take(const std::string& name, absl::string_view dtype, uint64_t bytes) {
    ASSIGN_OR_RETURN(Payload taken, Take(name, dtype));
    if (taken.size_bytes() == bytes) return taken;
    return WrongFile(file_, absl::StrCat(bytes, " bytes in ", PrintableText(name)),
                     absl::StrCat(taken.size_bytes()));
  }

 private:
  struct TypedBytes {
    std::string dtype;
    Payload bytes;
  };

  explicit ReadTensors(const OpenFile& file) : file_(file) {}

  static absl::StatusOr<Payload> ReadBytes(uint64_t bytes, HashedFile& file) {
    ASSIGN_OR_RETURN(HostBuffer buffer,
                     HostBuffer::Create((bytes + sizeof(float) - 1) / sizeof(float)));
    const auto owner = std::make_shared<HostBuffer>(std::move(buffer));
    auto* const memory = reinterpret_cast<uint8_t*>(owner->data());
    RETURN_IF_ERROR(file.Read(memory, bytes));
    return Payload::Exclusive({owner, memory}, bytes);
  }

  const OpenFile& file_;
  absl::flat_hash_map<std::string, TypedBytes> tensors_;  // by name
  uint64_t xxh3_ = 0;
};

absl::StatusOr<ShardSnapshot> DecodeBlocks(const OpenFile& file, ReadTensors& tensors) {
  ASSIGN_OR_RETURN(const Payload blocks, tensors.Take(kBlocks, "U8"));
  const Payload::Fragment bytes = blocks.piece();
  absl::StatusOr<ShardSnapshot> snapshot =
      DecodeShardBlocks({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!snapshot.ok()) return Annotate(snapshot.status(), file.path());
  return snapshot;
}

// Takes the arrays of a slice of a dense table. All have one length, which is not 0.
absl::Status TakeArrays(const OpenFile& file, const std::string& prefix, SliceSnapshot& slice,
                        ReadTensors& tensors) {
  return ForEachArray(
      slice, prefix, [&](const std::string& name, Payload& arrays, uint32_t count) -> absl::Status {
        if (&arrays != &slice.values) {
          ASSIGN_OR_RETURN(arrays, tensors.Take(name, "F32", count * slice.values.size_bytes()));
          return absl::OkStatus();
        }
        ASSIGN_OR_RETURN(arrays, tensors.Take(name, "F32"));
        if (!arrays.empty()) return absl::OkStatus();
        return WrongFile(file, absl::StrCat("values in ", PrintableText(name)), "none");
      });
}

template <typename Number>
std::vector<Number> NumbersOf(const Payload& bytes) {
  std::vector<Number> numbers(bytes.size_bytes() / sizeof(Number));
  bytes.CopyTo({reinterpret_cast<uint8_t*>(numbers.data()), bytes.size_bytes()});
  return numbers;
}

// Takes the tensors of a slice of a sparse table.
absl::Status TakeRows(const OpenFile& file, const std::string& prefix, SliceSnapshot& slice,
                      ReadTensors& tensors) {
  const auto rows = std::make_shared<SparseRowsSnapshot>(*slice.rows);
  const auto take = [&](const std::string& name, auto& numbers, size_t row_size,
                        bool may_lack) -> absl::Status {
    using Number = typename std::decay_t<decltype(numbers)>::value_type;
    if (may_lack && !tensors.Has(name)) return absl::OkStatus();
    ASSIGN_OR_RETURN(const Payload bytes, tensors.Take(name, Dtype<Number>()));
    numbers = NumbersOf<Number>(bytes);
    // The keys come first, and say how many rows there are.
    const size_t expected = row_size == 0 ? numbers.size() : rows->keys.size() * row_size;
    if (numbers.size() == expected) return absl::OkStatus();
    return WrongFile(file, absl::StrCat(expected, " numbers in ", PrintableText(name)),
                     absl::StrCat(numbers.size()));
  };
  RETURN_IF_ERROR(ForEachVector(*rows, prefix, take));
  if (!std::is_sorted(rows->keys.begin(), rows->keys.end())) {
    return WrongFile(file, absl::StrCat("ascending keys in ", PrintableText(prefix), "keys"),
                     "others");
  }
  slice.rows = rows;
  for (SliceSnapshot::KeptPush& push : slice.kept) {
    if (push.is_empty) continue;
    const std::string name = KeptName(prefix, push);
    ASSIGN_OR_RETURN(const Payload keys, tensors.Take(absl::StrCat(name, ".keys"), "I64"));
    push.keys = std::make_shared<const std::vector<uint64_t>>(NumbersOf<uint64_t>(keys));
    ASSIGN_OR_RETURN(push.gradient,
                     tensors.Take(name, "F32", push.keys->size() * rows->dim * sizeof(float)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<uint64_t> WriteShardFile(const ShardSnapshot& snapshot,
                                        absl::Span<const std::string> table_names,
                                        const OpenFile& file) {
  const std::string blocks = EncodeShardBlocks(snapshot);
  std::vector<Tensor> tensors;
  for (const SliceSnapshot& slice : snapshot.slices) {
    for (Tensor& tensor : TensorsOf(slice, table_names)) tensors.push_back(std::move(tensor));
  }
  // So that each one is aligned in the file: some libraries read no others.
  std::stable_partition(tensors.begin(), tensors.end(),
                        [](const Tensor& tensor) { return tensor.dtype == Dtype<uint64_t>(); });
  std::stable_partition(tensors.begin(), tensors.end(),
                        [](const Tensor& tensor) { return tensor.dtype != Dtype<uint8_t>(); });
  Safetensors header;
  for (const Tensor& tensor : tensors) {
    header.tensors.push_back({tensor.name, std::string(tensor.dtype), tensor.shape});
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
  for (const Tensor& tensor : tensors) {
    for (const Payload::Fragment fragment : tensor.bytes.fragments()) {
      RETURN_IF_ERROR(hashed.Append(fragment.data(), fragment.size()));
    }
  }
  RETURN_IF_ERROR(hashed.Append(blocks.data(), blocks.size()));
  return hashed.hash();
}

absl::StatusOr<HashedShard> ReadShardFile(const OpenFile& file,
                                          absl::Span<const std::string> table_names) {
  ASSIGN_OR_RETURN(ReadTensors tensors, ReadTensors::Read(file));
  HashedShard shard;
  shard.xxh3 = tensors.xxh3();
  ASSIGN_OR_RETURN(shard.snapshot, DecodeBlocks(file, tensors));
  for (SliceSnapshot& slice : shard.snapshot.slices) {
    if (slice.key.table.value() >= table_names.size()) {
      return WrongFile(file, absl::StrCat("tables below ", table_names.size()),
                       absl::StrCat(slice.key.table.value()));
    }
    const std::string prefix = PrefixOf(slice.key, table_names);
    RETURN_IF_ERROR(slice.rows != nullptr ? TakeRows(file, prefix, slice, tensors)
                                          : TakeArrays(file, prefix, slice, tensors));
  }
  if (tensors.left() == 0) return shard;
  return WrongFile(file, "the tensors of its slices", absl::StrCat(tensors.left(), " more"));
}

}  // namespace capstan
