#ifndef WORKER_CLIENT_ROW_STORE_H_
#define WORKER_CLIENT_ROW_STORE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/codec/codec.h"
#include "common/codec/table_codecs.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/exchange/payload.h"
#include "common/exchange/rates.h"
#include "common/scheduler/scheduler.h"
#include "common/tensor/buffer_pool.h"
#include "proto/coordinator_service.pb.h"
#include "worker/client/key_groups.h"
#include "worker/client/worker_exchanges.h"

namespace capstan {

// Exchanges the rows of a worker's sparse tables with the servers. In each step, each table is
// pushed once, to all of its slices: rows that have a gradient, or nothing. The same exchanges pull
// at the next step: the rows of the keys that are known by then, or none. A push of the keys that
// were pulled last does not send them again. A pull or push prepares its batch while the exchanges
// before are open, and waits for them before it begins its own. Thread-safe, but calls for one
// table come from one thread at a time.
class RowStore {
 public:
  struct Options {
    WorkerExchanges* exchanges = nullptr;  // Required; outlives the store
    std::vector<v1::TableSpec> tables;     // Required: all of the job, in order of table id
    std::vector<TableCodecs> codecs;       // Required: of each table
    uint64_t seed = 0;                     // the job's; of the codecs' draws
    uint32_t shard_count = 0;              // Required
  };

  explicit RowStore(const Options& options);

  // Tables below are sparse ones.
  size_t dim(TableId table) const { return tables_[table.value()]->dim; }

  // Asks for the rows of `keys` at `step`, unless they were fetched ahead. A key may be there
  // twice. INVALID_ARGUMENT: too many keys. Or the first error of any exchange.
  absl::Status Pull(TableId table, absl::Span<const uint64_t> keys, Step step);
  // Sets the row of each key of the last Pull. `rows` has `dim` values for each of them, and no
  // exchange of the table is open.
  void ReadRows(TableId table, absl::Span<float> rows) const;
  // The same for the Pull before the last one, whose exchanges may be open. There was no Push
  // between them.
  void ReadEarlierRows(TableId table, absl::Span<float> rows) const;
  size_t pulled_keys(TableId table) const { return tables_[table.value()]->pulled->inputs.size(); }

  // Pushes the table's step. `gradients` has `dim` values for each of `keys`; those of one key are
  // added up. Without keys, the step has no gradient. Fetches the rows of `next_keys` ahead, for
  // the next step. INVALID_ARGUMENT: a gradient is a NaN or an infinity and has a lossy codec;
  // there are too many keys. Or the first error of any exchange.
  absl::Status Push(TableId table, absl::Span<const uint64_t> keys,
                    absl::Span<const float> gradients, Step step,
                    absl::Span<const uint64_t> next_keys = {});

  // From now on pulls ask the servers even for rows that were fetched ahead, and get float32. No
  // exchange is open.
  void PullExactly();

  // Blocks until no exchange of the table is open, for `limit` at most. False: one is still open.
  // The first error of any exchange ends all waits.
  absl::StatusOr<bool> WaitFor(TableId table, absl::Duration limit) {
    return exchanges_.WaitFor(exchanges_.GroupOf(table), limit);
  }

 private:
  // The keys of one pull or push, by shard, with their lists as bytes, and the rows pulled.
  struct Batch {
    std::vector<uint64_t> inputs;  // as they were given
    KeyGroups groups;
    // The key lists of all shards, one after the other. Requests on their way share them.
    std::shared_ptr<const std::vector<uint8_t>> lists;
    std::vector<size_t> list_begins;
    std::vector<uint64_t> list_hashes;
    std::shared_ptr<uint8_t> row_memory;
    absl::Span<float> rows;          // of groups.keys(), in row_memory
    Step step = Step(-1);            // of the pull; below 0: none
    std::vector<uint64_t> versions;  // by shard: of the rows

    Payload::Fragment ListOf(ShardId shard) const {
      const size_t begin = list_begins[shard.value()];
      return {lists->data() + begin, list_begins[shard.value() + size_t{1}] - begin};
    }
    size_t CountIn(ShardId shard) const { return groups.KeysOf(shard).size(); }
  };
  // The memory of a round's requests. It lives as long as a transport, or a copy of a request,
  // needs it, and no later round changes it.
  struct Memory {
    // For each shard the gradient of its rows, encoded, and behind it their keys, if they are sent.
    std::shared_ptr<uint8_t> pushed;
    std::shared_ptr<const std::vector<uint8_t>> pushed_lists;
    std::shared_ptr<const std::vector<uint8_t>> pulled_lists;
  };
  // The latest exchanges of a table, one for each shard that has a part in them.
  struct Round {
    std::optional<Step> push_step;
    Step pull_step;
    const Batch* pushed = nullptr;  // null: nothing
    const Batch* base = nullptr;    // the pull of the same step; null: there was none
    Batch* pulled = nullptr;        // null: no rows
    Rates rates;
    std::shared_ptr<Memory> memory = std::make_shared<Memory>();
    std::vector<size_t> push_begins;  // by shard: in memory->pushed

    // The servers have the keys of their pull.
    bool sends_pushed_keys() const { return pushed != nullptr && pushed != base; }
  };
  struct Table {
    TableId id;
    std::string name;
    size_t dim = 0;  // 0: the table is dense
    int layer = 0;
    TableCodecs codecs;
    // The last two that were pulled, one that is being pushed and the pull of its step, one to push
    // and one to pull next.
    std::array<Batch, 6> batches;
    Batch* pulled = nullptr;   // the last one; never null
    Batch* earlier = nullptr;  // the one before it; never null
    // Read by other threads while exchanges are open, and changed only while none is.
    Round round;
  };

  // Returns a free batch, filled with these keys. It is not `used`, and no exchange or reader of
  // the table needs it. INVALID_ARGUMENT: too many keys.
  absl::StatusOr<Batch*> MakeBatch(Table& table, absl::Span<const uint64_t> keys,
                                   const Batch* used = nullptr);
  void EncodeLists(Batch& batch) const;
  // Puts what the round pushes into its memory. INVALID_ARGUMENT: a lossy codec refuses it.
  absl::Status SetPush(const Table& table, absl::Span<const float> gradients, Round& round);
  absl::Status SetPushTo(ShardId shard, const Table& table, absl::Span<const float> gradients,
                         const Round& round);
  absl::Status EncodeGradient(const Table& table, ShardId shard, absl::Span<const float> gradient,
                              Step step, absl::Span<uint8_t> bytes);
  // INVALID_ARGUMENT: a request of the round, or its reply, would be too long.
  static absl::Status CheckSize(size_t bytes, const Table& table);
  absl::Status CheckSizes(const Table& table, const Round& round) const;
  // Waits until no exchange of the table is open. Then begins the exchanges of the round: with all
  // shards if there is a push, else with those that have rows to pull.
  absl::Status Begin(const std::shared_ptr<Table>& table, Round round);
  // The transfers of the table's round.
  std::vector<Transfer> TransfersOf(const std::shared_ptr<Table>& table);
  void SendTo(ShardId shard, const std::shared_ptr<Table>& table, bool sends_all_keys,
              absl::AnyInvocable<void()> delivered);
  ExchangeRequest RequestTo(ShardId shard, const std::shared_ptr<Table>& table,
                            bool sends_all_keys) const;
  // What the round pushes to the shard: the encoded gradient, and the keys, if they are sent.
  static size_t PushedBytes(ShardId shard, const Table& table, const Round& round);
  static Payload::Fragment PushedTo(ShardId shard, const Table& table, const Round& round);
  // Where the pulled rows of the shard belong.
  static absl::Span<float> RowsOf(ShardId shard, const Table& table, const Round& round);
  void OnReply(ShardId shard, const std::shared_ptr<Table>& table, bool sent_all_keys,
               uint64_t bytes_pushed, const ExchangeReply& reply);
  absl::Status TakeRows(ShardId shard, const Table& table, const ExchangeReply& reply) const;
  // The codec of the rows of a reply.
  const Codec& PullCodec(const Table& table) const {
    return pulls_exactly_ ? *exact_ : *table.codecs.pull;
  }

  const Options options_;
  WorkerExchanges& exchanges_;
  BufferPool buffers_;  // of rows and pushes
  // Callbacks of exchanges share their table.
  std::vector<std::shared_ptr<Table>> tables_;
  const std::shared_ptr<const Codec> exact_ = MakeCodec("float32").value();
  bool pulls_exactly_ = false;  // changed only while no exchange is open
};

}  // namespace capstan

#endif  // WORKER_CLIENT_ROW_STORE_H_
