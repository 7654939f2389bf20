#ifndef SERVER_SHARD_CUTS_H_
#define SERVER_SHARD_CUTS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "server/shard/one_table_host.h"

namespace capstan {

// The exchanges of one_table_host.h are of this slice.
inline constexpr SliceKey kFirst{TableId(0), SliceIndex(0)};

// What CutAt has given so far. Thread-safe.
class Cuts {
 public:
  std::function<void(ShardSnapshot)> Adder() {
    return [this](ShardSnapshot snapshot) {
      MutexLock lock(&mu_);
      shards_.push_back(std::move(snapshot));
    };
  }
  std::vector<ShardSnapshot> shards() {
    MutexLock lock(&mu_);
    return shards_;
  }
  // The first slice in the cut of its shard; nothing: it has not been cut.
  std::optional<SliceSnapshot> first() {
    for (const ShardSnapshot& shard : shards()) {
      for (const SliceSnapshot& slice : shard.slices) {
        if (slice.key == kFirst) return slice;
      }
    }
    return std::nullopt;
  }

 private:
  Mutex mu_;
  std::vector<ShardSnapshot> shards_ ABSL_GUARDED_BY(mu_);
};

inline void Push(ShardHost& host, int worker, int64_t step, float gradient) {
  const auto result = Send(host, Request(worker, Step(step), std::nullopt, gradient));
  // One that is kept is answered once it is applied.
  ASSERT_LE(result->replies, 1);
  ASSERT_TRUE(result->reply.status.ok()) << result->reply.status;
}

}  // namespace capstan

#endif  // SERVER_SHARD_CUTS_H_
