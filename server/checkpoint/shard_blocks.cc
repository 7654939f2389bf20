#include "server/checkpoint/shard_blocks.h"

#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/little_endian.h"
#include "common/base/status_macros.h"
#include "common/exchange/exchange_request.h"
#include "common/exchange/payload.h"
#include "common/job/optimizer_check.h"
#include "common/routing/table_check.h"
#include "server/checkpoint/block_reader.h"

namespace capstan {
namespace {

constexpr uint32_t kShardKind = 1;
constexpr uint32_t kSliceKind = 2;
constexpr uint32_t kSparseSliceKind = 3;
constexpr uint32_t kProgramsKind = 4;
constexpr uint32_t kVersion = 2;
// Earlier versions of Capstan read kVersion. So these are written only where they are needed, for
// dense slices: with the number of updates that the optimizer has counted, where that is not the
// version of the values; and with this number and the momenta of kept pushes, where one has some.
constexpr uint32_t kVersionWithSteps = 3;
constexpr uint32_t kVersionWithMomenta = 4;
constexpr size_t kPrefixBytes = 16;
constexpr size_t kHashBytes = 8;
// Most arrays that an optimizer keeps for one slice.
constexpr uint32_t kMostArrays = 16;
// Most updates of a slice.
constexpr uint64_t kMostUpdates = uint64_t{1} << 62;
// Most floats of an optimizer's state in a row.
constexpr uint32_t kMostRowState = 4 * kMostRowDim;

void AppendBlock(uint32_t kind, uint32_t version, const std::string& contents, std::string* bytes) {
  const size_t begin = bytes->size();
  AppendLittleEndian(kind, bytes);
  AppendLittleEndian(version, bytes);
  AppendLittleEndian(uint64_t{contents.size()}, bytes);
  bytes->append(contents);
  AppendLittleEndian(uint64_t{XXH3_64bits(bytes->data() + begin, bytes->size() - begin)}, bytes);
}

uint8_t NumberOf(ConsistencyMode mode) {
  switch (mode) {
    case ConsistencyMode::kBsp:
      return 1;
    case ConsistencyMode::kSsp:
      return 2;
    case ConsistencyMode::kAsync:
      return 3;
  }
  return 0;
}

void AppendStep(Step step, std::string* bytes) {
  AppendLittleEndian(static_cast<uint64_t>(step.value()), bytes);
}

void AppendCount(size_t count, std::string* bytes) {
  AppendLittleEndian(static_cast<uint32_t>(count), bytes);
}

void AppendDouble(double number, std::string* bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, &number, sizeof(bits));
  AppendLittleEndian(bits, bytes);
}

std::string ShardContents(const ShardSnapshot& snapshot) {
  std::string contents;
  AppendLittleEndian(snapshot.shard.value(), &contents);
  AppendCount(snapshot.workers.size(), &contents);
  for (const ShardWorker& worker : snapshot.workers) {
    AppendLittleEndian(worker.worker.value(), &contents);
    AppendLittleEndian(worker.incarnation.value(), &contents);
    AppendStep(worker.first_step, &contents);
    AppendLittleEndian(uint8_t{worker.is_entering}, &contents);
  }
  return contents;
}

bool HasMomenta(const SliceSnapshot& slice) {
  return std::any_of(slice.kept.begin(), slice.kept.end(), [](const SliceSnapshot::KeptPush& push) {
    return push.rates.momentum.has_value();
  });
}

uint32_t VersionOf(const SliceSnapshot& slice) {
  if (slice.rows != nullptr) return kVersion;
  if (HasMomenta(slice)) return kVersionWithMomenta;
  return slice.optimizer_steps == slice.version ? kVersion : kVersionWithSteps;
}

void AppendOptional(std::optional<double> number, std::string* bytes) {
  AppendLittleEndian(uint8_t{number.has_value()}, bytes);
  AppendDouble(number.value_or(0), bytes);
}

std::string SliceContents(const SliceSnapshot& slice) {
  const uint32_t version = VersionOf(slice);
  std::string contents;
  AppendLittleEndian(slice.key.table.value(), &contents);
  AppendLittleEndian(slice.key.slice.value(), &contents);
  AppendLittleEndian(slice.version, &contents);
  if (version >= kVersionWithSteps) AppendLittleEndian(slice.optimizer_steps, &contents);
  AppendStep(slice.min_step, &contents);
  AppendStep(slice.largest_step, &contents);
  AppendCount(slice.optimizer_state.size(), &contents);
  AppendCount(slice.schedule.size(), &contents);
  for (const ConsistencyPeriod& period : slice.schedule) {
    AppendStep(period.first_step, &contents);
    AppendLittleEndian(NumberOf(period.mode), &contents);
    AppendLittleEndian(static_cast<uint64_t>(period.staleness), &contents);
  }
  AppendCount(slice.workers.size(), &contents);
  for (const StepVector::Entry& worker : slice.workers) {
    AppendLittleEndian(worker.worker.value(), &contents);
    AppendStep(worker.completed, &contents);
    AppendLittleEndian(uint8_t{worker.is_live}, &contents);
  }
  AppendCount(slice.kept.size(), &contents);
  for (const SliceSnapshot::KeptPush& push : slice.kept) {
    AppendStep(push.step, &contents);
    AppendLittleEndian(push.worker.value(), &contents);
    AppendLittleEndian(uint8_t{push.base_version.has_value()}, &contents);
    AppendLittleEndian(push.base_version.value_or(0), &contents);
    AppendOptional(push.rates.learning_rate, &contents);
    if (version >= kVersionWithMomenta) AppendOptional(push.rates.momentum, &contents);
    AppendLittleEndian(uint8_t{push.is_empty}, &contents);
  }
  AppendCount(slice.own_arrays, &contents);
  AppendCount(slice.own.size(), &contents);
  for (const SliceSnapshot::OwnState& own : slice.own) {
    AppendLittleEndian(own.worker.value(), &contents);
  }
  if (slice.copy.has_value()) AppendLittleEndian(slice.copy->version, &contents);
  if (slice.rows != nullptr) {
    AppendCount(slice.rows->dim, &contents);
    AppendCount(slice.rows->state_floats, &contents);
    AppendStep(slice.rows->last_step, &contents);
  }
  return contents;
}

std::string ProgramContents(const SliceSnapshot& slice) {
  std::string contents;
  AppendCount(slice.programs.size(), &contents);
  for (const SliceSnapshot::OwnState& program : slice.programs) {
    AppendLittleEndian(program.worker.value(), &contents);
    AppendLittleEndian(uint64_t{program.arrays.size_bytes()}, &contents);
    for (const Payload::Fragment bytes : program.arrays.fragments()) {
      contents.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
  }
  return contents;
}

ConsistencyMode ReadMode(BlockReader& reader) {
  const auto number = reader.Take<uint8_t>();
  for (const ConsistencyMode mode :
       {ConsistencyMode::kBsp, ConsistencyMode::kSsp, ConsistencyMode::kAsync}) {
    if (NumberOf(mode) == number) return mode;
  }
  reader.Refuse();
  return ConsistencyMode::kBsp;
}

void ReadShard(BlockReader& reader, ShardSnapshot& snapshot) {
  snapshot.shard = ShardId(reader.Take<uint32_t>());
  const uint32_t workers = reader.TakeCount(/*least_bytes=*/21);
  for (uint32_t i = 0; i < workers; ++i) {
    ShardWorker& worker = snapshot.workers.emplace_back();
    worker.worker = WorkerId(reader.Take<uint32_t>());
    worker.incarnation = Incarnation(reader.Take<uint64_t>());
    worker.first_step = reader.TakeStep();
    worker.is_entering = reader.TakeFlag();
  }
}

void ReadKeptPushes(BlockReader& reader, uint32_t version, SliceSnapshot& slice) {
  const bool has_momenta = version >= kVersionWithMomenta;
  const uint32_t kept = reader.TakeCount(/*least_bytes=*/has_momenta ? 40 : 31);
  for (uint32_t i = 0; i < kept; ++i) {
    SliceSnapshot::KeptPush& push = slice.kept.emplace_back();
    push.step = reader.TakeStep();
    push.worker = WorkerId(reader.Take<uint32_t>());
    const bool has_base_version = reader.TakeFlag();
    const auto base_version = reader.Take<uint64_t>();
    if (has_base_version) push.base_version = base_version;
    push.rates.learning_rate = reader.TakeRate();
    if (has_momenta) push.rates.momentum = reader.TakeRate();
    if (!CheckFraction("momentum", push.rates.momentum.value_or(0)).ok()) reader.Refuse();
    push.is_empty = reader.TakeFlag();
  }
}

// Each worker has at most one, and none if they have no arrays.
void ReadOwnStates(BlockReader& reader, SliceSnapshot& slice) {
  slice.own_arrays = reader.TakeNumber(kMostOwnArrays + 2);  // and those of pushes
  const uint32_t states = reader.TakeCount(/*least_bytes=*/4);
  for (uint32_t i = 0; i < states; ++i) {
    const WorkerId worker(reader.Take<uint32_t>());
    const bool is_next = slice.own.empty() || slice.own.back().worker < worker;
    if (slice.own_arrays == 0 || !is_next) reader.Refuse();
    slice.own.push_back({worker, Payload()});
  }
}

void ReadSlice(BlockReader& reader, uint32_t version, SliceSnapshot& slice) {
  slice.key.table = TableId(reader.Take<uint32_t>());
  slice.key.slice = SliceIndex(reader.Take<uint32_t>());
  slice.version = reader.Take<uint64_t>();
  slice.optimizer_steps = version >= kVersionWithSteps ? reader.Take<uint64_t>() : slice.version;
  if (std::max(slice.version, slice.optimizer_steps) > kMostUpdates) reader.Refuse();
  slice.min_step = reader.TakeStep();
  slice.largest_step = reader.TakeStep();
  slice.optimizer_state.resize(reader.TakeCount(/*least_bytes=*/1, kMostArrays));
  const uint32_t periods = reader.TakeCount(/*least_bytes=*/17);
  for (uint32_t i = 0; i < periods; ++i) {
    ConsistencyPeriod& period = slice.schedule.emplace_back();
    period.first_step = reader.TakeStep();
    period.mode = ReadMode(reader);
    period.staleness = static_cast<int64_t>(reader.Take<uint64_t>());
  }
  const uint32_t workers = reader.TakeCount(/*least_bytes=*/13);
  for (uint32_t i = 0; i < workers; ++i) {
    StepVector::Entry& worker = slice.workers.emplace_back();
    worker.worker = WorkerId(reader.Take<uint32_t>());
    worker.completed = reader.TakeStep();
    worker.is_live = reader.TakeFlag();
  }
  ReadKeptPushes(reader, version, slice);
  ReadOwnStates(reader, slice);
}

void ReadSparseSlice(BlockReader& reader, SliceSnapshot& slice) {
  ReadSlice(reader, kVersion, slice);
  auto rows = std::make_shared<SparseRowsSnapshot>();
  rows->dim = reader.TakeNumber(kMostRowDim);
  rows->state_floats = reader.TakeNumber(kMostRowState);
  rows->last_step = reader.TakeStep();
  // Workers keep no state of their own for rows.
  const bool has_arrays = !slice.optimizer_state.empty() || slice.own_arrays > 0;
  if (rows->dim == 0 || has_arrays) reader.Refuse();
  slice.rows = std::move(rows);
}

void ReadDenseSlice(BlockReader& reader, uint32_t version, SliceSnapshot& slice) {
  ReadSlice(reader, version, slice);
  if (VersionOf(slice) != version) reader.Refuse();  // what it is there for is not there
  if (reader.is_at_end()) return;
  SliceSnapshot::WorkerCopy copy;
  copy.version = reader.Take<uint64_t>();
  if (copy.version > slice.version) reader.Refuse();
  slice.copy = std::move(copy);
}

void ReadPrograms(BlockReader& reader, SliceSnapshot& slice) {
  const uint32_t programs = reader.TakeCount(/*least_bytes=*/12);
  if (programs == 0 || slice.rows != nullptr || !slice.programs.empty()) reader.Refuse();
  for (uint32_t i = 0; i < programs; ++i) {
    const WorkerId worker(reader.Take<uint32_t>());
    const bool is_next = slice.programs.empty() || slice.programs.back().worker < worker;
    const auto length = reader.Take<uint64_t>();
    if (!is_next || length > kMaxProgramStateBytes) return reader.Refuse();
    const auto bytes = std::make_shared<std::string>(reader.TakeBytes(length));
    Payload state{bytes};
    state.Append({reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()});
    slice.programs.push_back({worker, std::move(state)});
  }
}

struct Block {
  uint32_t kind = 0;
  uint32_t version = 0;
  absl::string_view contents;
};

// Takes the first block off `bytes`. `number` is for errors.
absl::StatusOr<Block> TakeBlock(size_t number, absl::string_view& bytes) {
  BlockReader prefix(bytes);
  Block block;
  block.kind = prefix.Take<uint32_t>();
  block.version = prefix.Take<uint32_t>();
  const auto length = prefix.Take<uint64_t>();
  if (!prefix.is_whole() || bytes.size() < kPrefixBytes + kHashBytes ||
      length > bytes.size() - kPrefixBytes - kHashBytes) {
    return absl::DataLossError(absl::StrCat("block ", number, " of a shard: expected ", length,
                                            " bytes and a checksum, but the shard ends"));
  }
  const absl::string_view hashed = bytes.substr(0, kPrefixBytes + length);
  const auto hash = BlockReader(bytes.substr(hashed.size())).Take<uint64_t>();
  if (hash != XXH3_64bits(hashed.data(), hashed.size())) {
    return absl::DataLossError(
        absl::StrCat("block ", number, " of a shard: its bytes do not have its checksum"));
  }
  const uint32_t latest = block.kind == kSliceKind ? kVersionWithMomenta : kVersion;
  if (block.version < kVersion || block.version > latest) {
    return absl::InvalidArgumentError(
        absl::StrCat("block ", number, " of a shard: expected format ", latest, ", got ",
                     block.version, "; use the version of Capstan that wrote it"));
  }
  block.contents = hashed.substr(kPrefixBytes);
  bytes.remove_prefix(hashed.size() + kHashBytes);
  return block;
}

absl::Status WrongBlock(size_t number, absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("block ", number, " of a shard: expected ", expected, ", got another one"));
}

}  // namespace

std::string EncodeShardBlocks(const ShardSnapshot& snapshot) {
  std::string bytes;
  AppendBlock(kShardKind, kVersion, ShardContents(snapshot), &bytes);
  for (const SliceSnapshot& slice : snapshot.slices) {
    AppendBlock(slice.rows == nullptr ? kSliceKind : kSparseSliceKind, VersionOf(slice),
                SliceContents(slice), &bytes);
    if (slice.programs.empty()) continue;
    AppendBlock(kProgramsKind, kVersion, ProgramContents(slice), &bytes);
  }
  return bytes;
}

absl::StatusOr<ShardSnapshot> DecodeShardBlocks(absl::string_view bytes) {
  ShardSnapshot snapshot;
  size_t number = 0;
  do {
    ASSIGN_OR_RETURN(const Block block, TakeBlock(number, bytes));
    const bool is_slice = block.kind == kSliceKind || block.kind == kSparseSliceKind;
    const bool is_programs = block.kind == kProgramsKind && !snapshot.slices.empty();
    if (number == 0 ? block.kind != kShardKind : !is_slice && !is_programs) {
      return WrongBlock(number, number == 0 ? "the shard's" : "a slice's");
    }
    BlockReader reader(block.contents);
    if (block.kind == kShardKind) {
      ReadShard(reader, snapshot);
    } else if (is_programs) {
      ReadPrograms(reader, snapshot.slices.back());
    } else if (block.kind == kSliceKind) {
      ReadDenseSlice(reader, block.version, snapshot.slices.emplace_back());
    } else {
      ReadSparseSlice(reader, snapshot.slices.emplace_back());
    }
    if (!reader.is_whole() || !reader.is_at_end()) {
      return WrongBlock(number, "contents as long as their counts say");
    }
    const size_t slices = snapshot.slices.size();
    if (slices > 1 && !(snapshot.slices[slices - 2].key < snapshot.slices[slices - 1].key)) {
      return WrongBlock(number, "slices in ascending order");
    }
    ++number;
  } while (!bytes.empty());
  return snapshot;
}

}  // namespace capstan
