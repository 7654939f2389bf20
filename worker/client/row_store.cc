#include "worker/client/row_store.h"

#include <glog/logging.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/codec/key_list.h"
#include "common/tensor/host_buffer.h"
#include "common/tensor/slicing.h"
#include "worker/client/store_traffic.h"

namespace capstan {

RowStore::RowStore(const Options& options) : options_(options), exchanges_(*options.exchanges) {
  for (size_t i = 0; i < options_.tables.size(); ++i) {
    const v1::TableSpec& spec = options_.tables[i];
    const auto table = std::make_shared<Table>();
    table->id = TableId(static_cast<uint32_t>(i));
    table->name = spec.name();
    table->dim = spec.sparse().dim();
    table->layer = static_cast<int>(spec.layer());
    table->codecs = options_.codecs[i];
    table->pulled = &table->batches[0];
    table->earlier = &table->batches[1];
    tables_.push_back(table);
  }
}

absl::StatusOr<RowStore::Batch*> RowStore::MakeBatch(Table& table, absl::Span<const uint64_t> keys,
                                                     const Batch* used) {
  // Exchanges that are open read what they push, and what was pulled for it.
  const bool is_open = exchanges_.IsOpen(exchanges_.GroupOf(table.id));
  const Batch* const kept[] = {table.pulled, table.earlier, used,
                               is_open ? table.round.pushed : nullptr,
                               is_open ? table.round.base : nullptr};
  // Memory that was used lately is in the cache.
  Batch* batch = &table.batches[0];
  while (std::find(std::begin(kept), std::end(kept), batch) != std::end(kept)) ++batch;
  const absl::Status grouped = batch->groups.Group(keys, options_.shard_count);
  if (!grouped.ok()) return Annotate(grouped, absl::StrCat("table ", table.name));
  // Before memory is taken for the rows.
  for (uint32_t shard = 0; shard < options_.shard_count; ++shard) {
    RETURN_IF_ERROR(CheckSize(batch->CountIn(ShardId(shard)) * table.dim * sizeof(float), table));
  }
  batch->inputs.assign(keys.begin(), keys.end());
  EncodeLists(*batch);
  const size_t floats = batch->groups.keys().size() * table.dim;
  batch->row_memory = buffers_.Take(floats * sizeof(float));
  batch->rows = {reinterpret_cast<float*>(batch->row_memory.get()), floats};
  batch->versions.resize(options_.shard_count);
  batch->step = Step(-1);
  return batch;
}

void RowStore::EncodeLists(Batch& batch) const {
  const auto lists = std::make_shared<std::vector<uint8_t>>();
  batch.list_begins.assign(1, 0);
  batch.list_hashes.clear();
  for (uint32_t shard = 0; shard < options_.shard_count; ++shard) {
    const absl::Span<const uint64_t> of_shard = batch.groups.KeysOf(ShardId(shard));
    const size_t begin = lists->size();
    lists->resize(begin + MostKeyListBytes(of_shard.size()));
    const absl::Span<uint8_t> list = absl::MakeSpan(*lists).subspan(begin);
    const size_t bytes = EncodeKeyList(of_shard, list);
    batch.list_hashes.push_back(HashKeyList(list.first(bytes)));
    lists->resize(begin + bytes);
    batch.list_begins.push_back(begin + bytes);
  }
  batch.lists = lists;
}

absl::Status RowStore::Pull(TableId id, absl::Span<const uint64_t> keys, Step step) {
  const std::shared_ptr<Table>& table = tables_[id.value()];
  if (table->pulled->step == step && table->pulled->inputs == keys) return absl::OkStatus();
  Round round;
  round.pull_step = step;
  ASSIGN_OR_RETURN(round.pulled, MakeBatch(*table, keys));
  return Begin(table, std::move(round));
}

void RowStore::ReadRows(TableId id, absl::Span<float> rows) const {
  const Table& table = *tables_[id.value()];
  table.pulled->groups.ExpandRows(table.pulled->rows, table.dim, rows);
}

void RowStore::ReadEarlierRows(TableId id, absl::Span<float> rows) const {
  const Table& table = *tables_[id.value()];
  table.earlier->groups.ExpandRows(table.earlier->rows, table.dim, rows);
}

absl::Status RowStore::Push(TableId id, absl::Span<const uint64_t> keys,
                            absl::Span<const float> gradients, Step step,
                            absl::Span<const uint64_t> next_keys) {
  const std::shared_ptr<Table>& table = tables_[id.value()];
  CHECK_EQ(gradients.size(), keys.size() * table->dim);
  Round round;
  round.push_step = step;
  round.pull_step = step + 1;
  round.rates = exchanges_.RatesOf(id);
  round.base = table->pulled->step == step ? table->pulled : nullptr;
  if (!keys.empty()) {
    round.pushed = round.base;
    if (round.base == nullptr || round.base->inputs != keys) {
      ASSIGN_OR_RETURN(round.pushed, MakeBatch(*table, keys));
    }
    RETURN_IF_ERROR(SetPush(*table, gradients, round));
  }
  if (!next_keys.empty()) {
    ASSIGN_OR_RETURN(round.pulled, MakeBatch(*table, next_keys, round.pushed));
  }
  return Begin(table, std::move(round));
}

absl::Status RowStore::CheckSize(size_t bytes, const Table& table) {
  if (bytes <= kMaxSliceBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("table ", table.name, ": expected at most ", kMaxSliceBytes,
                   " bytes of keys and rows of one shard, got ", bytes,
                   "; use smaller batches, or a larger cluster.shard_count"));
}

absl::Status RowStore::CheckSizes(const Table& table, const Round& round) const {
  for (uint32_t i = 0; i < options_.shard_count; ++i) {
    const ShardId shard(i);
    // The keys that are pushed may have to be sent after all.
    size_t sent = PushedTo(shard, table, round).size();
    if (round.pushed != nullptr) sent += round.pushed->ListOf(shard).size();
    if (round.pulled != nullptr) sent += round.pulled->ListOf(shard).size();
    const size_t pulled = RowsOf(shard, table, round).size() * sizeof(float);
    const size_t rows = (round.pushed == nullptr ? 0 : round.pushed->CountIn(shard)) * table.dim;
    RETURN_IF_ERROR(CheckSize(std::max({sent, pulled, rows * sizeof(float)}), table));
  }
  return absl::OkStatus();
}

absl::Status RowStore::SetPush(const Table& table, absl::Span<const float> gradients,
                               Round& round) {
  constexpr size_t kLine = kCacheLineBytes;
  size_t end = 0;
  for (uint32_t i = 0; i < options_.shard_count; ++i) {
    round.push_begins.push_back(end);
    end += (PushedBytes(ShardId(i), table, round) + kLine - 1) / kLine * kLine;
  }
  round.memory->pushed = buffers_.Take(end);
  for (uint32_t i = 0; i < options_.shard_count; ++i) {
    RETURN_IF_ERROR(SetPushTo(ShardId(i), table, gradients, round));
  }
  return absl::OkStatus();
}

absl::Status RowStore::SetPushTo(ShardId shard, const Table& table,
                                 absl::Span<const float> gradients, const Round& round) {
  const Batch& batch = *round.pushed;
  const size_t count = batch.CountIn(shard) * table.dim;
  if (count == 0) return absl::OkStatus();
  uint8_t* const begin = round.memory->pushed.get() + round.push_begins[shard.value()];
  const absl::Span<uint8_t> encoded(begin, table.codecs.push->EncodedBytes(count));
  if (table.codecs.push->is_lossy()) {
    std::vector<float> sums(count);
    batch.groups.SumGradients(shard, gradients, table.dim, absl::MakeSpan(sums));
    RETURN_IF_ERROR(EncodeGradient(table, shard, sums, *round.push_step, encoded));
  } else {
    batch.groups.SumGradients(shard, gradients, table.dim,
                              {reinterpret_cast<float*>(begin), count});
  }
  if (round.sends_pushed_keys()) {
    const Payload::Fragment list = batch.ListOf(shard);
    std::copy(list.begin(), list.end(), encoded.end());
  }
  return absl::OkStatus();
}

absl::Status RowStore::EncodeGradient(const Table& table, ShardId shard,
                                      absl::Span<const float> gradient, Step step,
                                      absl::Span<uint8_t> bytes) {
  const absl::Time begin = exchanges_.clock().Now();
  // A retry sends the same bytes. Draws of the slices are far apart.
  const DrawKey draws = {options_.seed, table.id, exchanges_.sender().worker, step,
                         uint64_t{shard.value()} << 32};
  const absl::Status encoded =
      table.codecs.push->Encode(gradient, draws, /*residual=*/{}, bytes).status();
  if (!encoded.ok()) {
    return Annotate(
        encoded, absl::StrCat("worker ", exchanges_.sender().worker.value(), ", step ",
                              step.value(), ", slice ", shard.value(), " of table ", table.name));
  }
  exchanges_.traffic().CountCoding(exchanges_.clock().Now() - begin);
  return absl::OkStatus();
}

absl::Status RowStore::Begin(const std::shared_ptr<Table>& table, Round round) {
  RETURN_IF_ERROR(CheckSizes(*table, round));
  if (round.pushed != nullptr) round.memory->pushed_lists = round.pushed->lists;
  if (round.pulled != nullptr) round.memory->pulled_lists = round.pulled->lists;
  RETURN_IF_ERROR(WaitFor(table->id, absl::InfiniteDuration()).status());
  const absl::Time begin = exchanges_.clock().Now();
  table->round = std::move(round);
  std::vector<Transfer> transfers = TransfersOf(table);
  if (Batch* const pulled = table->round.pulled; pulled != nullptr) {
    pulled->step = table->round.pull_step;
    const bool is_push = table->round.push_step.has_value();
    table->earlier = is_push ? pulled : table->pulled;
    table->pulled = pulled;
  }
  exchanges_.Open(exchanges_.GroupOf(table->id), static_cast<int64_t>(transfers.size()));
  for (Transfer& transfer : transfers) exchanges_.scheduler().Submit(std::move(transfer));
  exchanges_.traffic().CountSending(exchanges_.clock().Now() - begin);
  return absl::OkStatus();
}

std::vector<Transfer> RowStore::TransfersOf(const std::shared_ptr<Table>& table) {
  const Round& round = table->round;
  std::vector<Transfer> transfers;
  for (uint32_t i = 0; i < options_.shard_count; ++i) {
    const ShardId shard(i);
    const bool has_rows = round.pulled != nullptr && round.pulled->CountIn(shard) > 0;
    if (!round.push_step.has_value() && !has_rows) continue;
    Transfer& transfer = transfers.emplace_back();
    transfer.layer = table->layer;
    transfer.bytes = PushedTo(shard, *table, round).size();
    if (has_rows) transfer.bytes += round.pulled->ListOf(shard).size();
    transfer.start = [this, shard, table](absl::AnyInvocable<void()> credited) {
      SendTo(shard, table, /*sends_all_keys=*/false, std::move(credited));
    };
  }
  return transfers;
}

size_t RowStore::PushedBytes(ShardId shard, const Table& table, const Round& round) {
  if (round.pushed == nullptr) return 0;
  const size_t floats = round.pushed->CountIn(shard) * table.dim;
  return table.codecs.push->EncodedBytes(floats) +
         (round.sends_pushed_keys() ? round.pushed->ListOf(shard).size() : 0);
}

Payload::Fragment RowStore::PushedTo(ShardId shard, const Table& table, const Round& round) {
  if (round.pushed == nullptr) return {};
  return {round.memory->pushed.get() + round.push_begins[shard.value()],
          PushedBytes(shard, table, round)};
}

absl::Span<float> RowStore::RowsOf(ShardId shard, const Table& table, const Round& round) {
  Batch* const batch = round.pulled;
  if (batch == nullptr) return {};
  return batch->rows.subspan(batch->groups.BeginOf(shard) * table.dim,
                             batch->CountIn(shard) * table.dim);
}

ExchangeRequest RowStore::RequestTo(ShardId shard, const std::shared_ptr<Table>& table,
                                    bool sends_all_keys) const {
  const Round& round = table->round;
  const auto payload = [&round](Payload::Fragment bytes) {
    Payload owned(round.memory);
    owned.Append(bytes);
    return owned;
  };
  RowStep step;
  step.pull = {round.pull_step, pulls_exactly_};
  const size_t pushed = round.pushed == nullptr ? 0 : round.pushed->CountIn(shard);
  if (round.push_step.has_value()) {
    // All slices hear of the rates: a step has one of each, whatever the shards.
    step.push = {*round.push_step, std::nullopt, std::nullopt, round.rates};
  }
  if (pushed > 0) {
    const bool has_base = round.base != nullptr && round.base->CountIn(shard) > 0;
    if (has_base) step.push->base_version = round.base->versions[shard.value()];
    const Payload::Fragment sent = PushedTo(shard, *table, round);
    const size_t keys = round.sends_pushed_keys() ? round.pushed->ListOf(shard).size() : 0;
    step.push->gradient = {payload(sent.first(sent.size() - keys)), table->codecs.push->type()};
    step.pushed_keys = {static_cast<uint32_t>(pushed), round.pushed->list_hashes[shard.value()],
                        payload(sent.last(keys))};
    if (!round.sends_pushed_keys() && sends_all_keys) {
      step.pushed_keys.bytes = payload(round.pushed->ListOf(shard));
    }
  }
  absl::Span<float> destination;
  if (round.pulled != nullptr && round.pulled->CountIn(shard) > 0) {
    step.pulled_keys = {static_cast<uint32_t>(round.pulled->CountIn(shard)),
                        round.pulled->list_hashes[shard.value()],
                        payload(round.pulled->ListOf(shard))};
    if (!PullCodec(*table).is_lossy()) destination = RowsOf(shard, *table, round);
  }
  return {exchanges_.sender(), Epoch(), RowsIn(shard, table->id), std::move(step), destination};
}

void RowStore::SendTo(ShardId shard, const std::shared_ptr<Table>& table, bool sends_all_keys,
                      absl::AnyInvocable<void()> delivered) {
  ExchangeRequest request = RequestTo(shard, table, sends_all_keys);
  const uint64_t bytes_pushed = PayloadBytes(request);
  exchanges_.client().Exchange(
      std::move(request), std::move(delivered),
      [this, shard, table, sends_all_keys, bytes_pushed](const ExchangeReply& reply) {
        OnReply(shard, table, sends_all_keys, bytes_pushed, reply);
      });
}

absl::Status RowStore::TakeRows(ShardId shard, const Table& table,
                                const ExchangeReply& reply) const {
  RETURN_IF_ERROR(reply.status);
  const absl::Span<float> rows = RowsOf(shard, table, table.round);
  if (rows.empty()) return absl::OkStatus();
  table.round.pulled->versions[shard.value()] = reply.version;
  const Codec& codec = PullCodec(table);
  if (reply.codec != codec.type() || reply.values.size_bytes() != codec.EncodedBytes(rows.size())) {
    return absl::InternalError(absl::StrCat(
        "slice ", shard.value(), " of table ", table.name, ": expected ",
        codec.EncodedBytes(rows.size()), " bytes of codec ", codec.name(), ", a server sent ",
        reply.values.size_bytes(), " of codec ", static_cast<int>(reply.codec)));
  }
  if (!codec.is_lossy()) {
    reply.values.CopyTo(rows);
    return absl::OkStatus();
  }
  const Payload bytes = reply.values.InOnePiece();
  RETURN_IF_ERROR(codec.Check(bytes.piece(), rows.size()));
  codec.Decode(bytes.piece(), rows.size(), /*begin=*/0, rows);
  return absl::OkStatus();
}

void RowStore::OnReply(ShardId shard, const std::shared_ptr<Table>& table, bool sent_all_keys,
                       uint64_t bytes_pushed, const ExchangeReply& reply) {
  // The server does not have the keys of an earlier pull any more.
  if (absl::IsNotFound(reply.status) && !sent_all_keys) {
    return SendTo(shard, table, /*sends_all_keys=*/true, [] {});
  }
  const absl::Status status = TakeRows(shard, *table, reply);
  if (reply.status.ok()) {
    const Round& round = table->round;
    const auto float_bytes = [&table, shard](const Batch* batch) -> uint64_t {
      return batch == nullptr ? 0 : batch->CountIn(shard) * table->dim * sizeof(float);
    };
    TrafficCounter& traffic = exchanges_.traffic();
    traffic.CountExchange();
    traffic.CountPush(table->codecs.push->type(), bytes_pushed, float_bytes(round.pushed));
    traffic.CountPull(round.pull_step, reply, float_bytes(round.pulled));
  }
  // From now on the round may change.
  exchanges_.Close(exchanges_.GroupOf(table->id), status);
}

void RowStore::PullExactly() {
  for (const std::shared_ptr<Table>& table : tables_) table->pulled->step = Step(-1);
  pulls_exactly_ = true;
}

}  // namespace capstan
