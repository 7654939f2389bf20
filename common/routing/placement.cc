#include "common/routing/placement.h"

#include <glog/logging.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <queue>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/tensor/slicing.h"

namespace capstan {
namespace {

// The items, the largest one first.
std::vector<size_t> LargestFirst(absl::Span<const uint64_t> item_bytes) {
  std::vector<size_t> order(item_bytes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return item_bytes[a] > item_bytes[b]; });
  return order;
}

// The bin of each item. The largest item is placed first, in the bin with the fewest bytes. Ties go
// to the lowest index.
std::vector<uint32_t> PackLargestFirst(absl::Span<const uint64_t> item_bytes, size_t num_bins) {
  using Bin = std::pair<uint64_t, uint32_t>;  // Bytes, index.
  std::priority_queue<Bin, std::vector<Bin>, std::greater<Bin>> bins;
  for (size_t bin = 0; bin < num_bins; ++bin) bins.emplace(0, bin);

  std::vector<uint32_t> bin_of_item(item_bytes.size());
  for (const size_t item : LargestFirst(item_bytes)) {
    const auto [bytes, bin] = bins.top();
    bins.pop();
    bin_of_item[item] = bin;
    bins.emplace(bytes + item_bytes[item], bin);
  }
  return bin_of_item;
}

// Chooses servers for copies, each on another host than its shard. `hosts` has two different ones
// at least, and outlives this.
class CopyPlacement {
 public:
  // `bytes`: what each server has already.
  CopyPlacement(absl::Span<const std::string> hosts, std::vector<uint64_t> bytes)
      : hosts_(hosts), bytes_(std::move(bytes)) {
    for (uint32_t server = 0; server < bytes_.size(); ++server) {
      servers_.emplace(bytes_[server], server);
    }
  }

  uint32_t Place(uint32_t primary, uint64_t bytes) {
    const uint32_t chosen = Choose(primary);
    servers_.erase({bytes_[chosen], chosen});
    bytes_[chosen] += bytes;
    servers_.emplace(bytes_[chosen], chosen);
    bytes_of_pair_[{primary, chosen}] += bytes;
    return chosen;
  }

 private:
  // That with the fewest bytes, where those of this primary's shards count twice.
  uint32_t Choose(uint32_t primary) const {
    uint64_t least = std::numeric_limits<uint64_t>::max();
    uint32_t chosen = primary;
    for (const auto& [bytes, server] : servers_) {
      if (bytes >= least) break;
      if (hosts_[server] == hosts_[primary]) continue;
      const auto pair = bytes_of_pair_.find({primary, server});
      const uint64_t counted = bytes + (pair == bytes_of_pair_.end() ? 0 : pair->second);
      if (counted < least) {
        least = counted;
        chosen = server;
      }
    }
    CHECK_NE(chosen, primary);
    return chosen;
  }

  const absl::Span<const std::string> hosts_;
  std::vector<uint64_t> bytes_;
  std::set<std::pair<uint64_t, uint32_t>> servers_;  // by their bytes
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint64_t> bytes_of_pair_;
};

}  // namespace

ShardMap::ShardMap(absl::Span<const uint64_t> table_elements, uint64_t slice_bytes,
                   uint32_t shard_count)
    : slices_(shard_count), shard_bytes_(shard_count) {
  CHECK_GT(slice_bytes, 0);
  CHECK_GT(shard_count, 0);
  std::vector<SliceKey> keys;
  std::vector<uint64_t> slice_sizes;  // those of sparse tables do not count
  for (uint32_t table = 0; table < table_elements.size(); ++table) {
    first_slice_of_table_.push_back(keys.size());
    if (table_elements[table] == 0) {
      for (uint32_t shard = 0; shard < shard_count; ++shard) {
        keys.push_back(RowsIn(ShardId(shard), TableId(table)));
        slice_sizes.push_back(0);
        shard_bytes_[shard] += slice_bytes;
      }
      continue;
    }
    const Slicing slicing(table_elements[table], slice_bytes);
    for (uint32_t slice = 0; slice < slicing.slice_count(); ++slice) {
      keys.push_back({TableId(table), SliceIndex(slice)});
      slice_sizes.push_back(slicing.Range(SliceIndex(slice)).size * sizeof(float));
    }
  }
  first_slice_of_table_.push_back(keys.size());

  shard_of_slice_ = PackLargestFirst(slice_sizes, shard_count);
  for (size_t i = 0; i < keys.size(); ++i) {
    const bool is_sparse = table_elements[keys[i].table.value()] == 0;
    if (is_sparse) shard_of_slice_[i] = keys[i].slice.value();
    slices_[shard_of_slice_[i]].push_back(keys[i]);
    shard_bytes_[shard_of_slice_[i]] += slice_sizes[i];
  }
}

ShardId ShardMap::ShardOf(SliceKey slice) const {
  CHECK_LT(slice.table.value() + size_t{1}, first_slice_of_table_.size());
  const size_t index = first_slice_of_table_[slice.table.value()] + slice.slice.value();
  CHECK_LT(index, first_slice_of_table_[slice.table.value() + size_t{1}]);
  return ShardId(shard_of_slice_[index]);
}

std::vector<ServerId> PlaceShards(absl::Span<const uint64_t> shard_bytes, int num_servers) {
  CHECK_GT(num_servers, 0);
  std::vector<ServerId> server_of_shard;
  uint32_t next_for_empty = 0;
  for (const uint32_t server : PackLargestFirst(shard_bytes, num_servers)) {
    const bool is_empty = shard_bytes[server_of_shard.size()] == 0;
    server_of_shard.emplace_back(is_empty ? next_for_empty++ % num_servers : server);
  }
  return server_of_shard;
}

std::vector<ServerId> PlaceCopies(absl::Span<const uint64_t> shard_bytes,
                                  absl::Span<const ServerId> server_of_shard,
                                  absl::Span<const std::string> host_of_server) {
  std::vector<std::string> hosts(host_of_server.begin(), host_of_server.end());
  const auto is_first = [&](const std::string& host) { return host == hosts.front(); };
  if (std::all_of(hosts.begin(), hosts.end(), is_first)) {
    for (size_t server = 0; server < hosts.size(); ++server) hosts[server] = absl::StrCat(server);
  }
  std::vector<uint64_t> bytes(hosts.size());
  for (size_t shard = 0; shard < shard_bytes.size(); ++shard) {
    bytes[server_of_shard[shard].value()] += shard_bytes[shard];
  }
  CopyPlacement filled(hosts, std::move(bytes));
  CopyPlacement empty(hosts, std::vector<uint64_t>(hosts.size()));
  std::vector<ServerId> server_of_copy(shard_bytes.size());
  for (const size_t shard : LargestFirst(shard_bytes)) {
    const uint32_t primary = server_of_shard[shard].value();
    const bool is_empty = shard_bytes[shard] == 0;
    server_of_copy[shard] =
        ServerId(is_empty ? empty.Place(primary, 1) : filled.Place(primary, shard_bytes[shard]));
  }
  return server_of_copy;
}

std::optional<ServerId> PlaceCopy(ServerId primary, absl::Span<const ServerRoom> servers) {
  const std::string& own_host = servers.at(primary.value()).host;
  std::optional<std::pair<bool, uint64_t>> best;  // is on the same host, bytes
  std::optional<ServerId> chosen;
  for (uint32_t id = 0; id < servers.size(); ++id) {
    if (!servers[id].is_live || id == primary.value()) continue;
    const std::pair<bool, uint64_t> rank(servers[id].host == own_host, servers[id].bytes);
    if (best.has_value() && *best <= rank) continue;
    best = rank;
    chosen = ServerId(id);
  }
  return chosen;
}

}  // namespace capstan
