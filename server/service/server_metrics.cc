#include "server/service/server_metrics.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace capstan {

void AddShardMetrics(const ShardCounts& counts,
                     const std::map<WorkerId, int64_t>& non_finite_pushes, uint32_t num_workers,
                     MetricsPage& page) {
  const auto add = [&page](absl::string_view name, const char* label, absl::string_view value,
                           auto number) {
    page.Add(name, {{label, value}}, static_cast<double>(number));
  };
  constexpr absl::string_view kExchanges = "capstan_server_exchanges_total";
  add(kExchanges, "kind", "push", counts.pushes);
  add(kExchanges, "kind", "pull", counts.pulls);
  add(kExchanges, "kind", "push_pull", counts.push_pulls);
  add(kExchanges, "kind", "own_state", counts.own_states);
  add(kExchanges, "kind", "initial_values", counts.initial_values);
  add(kExchanges, "kind", "collective", counts.collectives);
  counts.received.ForEach([&add](absl::string_view codec, uint64_t bytes) {
    add("capstan_server_received_bytes_total", "codec", codec, bytes);
  });
  counts.sent.ForEach([&add](absl::string_view codec, uint64_t bytes) {
    add("capstan_server_sent_bytes_total", "codec", codec, bytes);
  });
  page.Add("capstan_server_parked_replies", static_cast<double>(counts.parked));
  page.Add("capstan_server_apply_seconds_total", absl::ToDoubleSeconds(counts.lock_held));
  page.Add("capstan_server_lock_wait_seconds_total", absl::ToDoubleSeconds(counts.lock_wait));
  constexpr absl::string_view kMemory = "capstan_server_memory_bytes";
  add(kMemory, "use", "parameters", counts.memory.parameters);
  add(kMemory, "use", "optimizer", counts.memory.optimizer);
  add(kMemory, "use", "accumulators", counts.memory.accumulators);
  add(kMemory, "use", "copies", counts.memory.copies);
  page.Add("capstan_server_rows", static_cast<double>(counts.memory.rows));
  page.Add("capstan_server_duplicate_pushes_total", static_cast<double>(counts.duplicate_pushes));
  for (uint32_t worker = 0; worker < num_workers; ++worker) {
    const auto found = non_finite_pushes.find(WorkerId(worker));
    add("capstan_server_non_finite_pushes_total", "worker", absl::StrCat(worker),
        found == non_finite_pushes.end() ? 0 : found->second);
  }
}

void AddReplyMetrics(int64_t held_bytes, uint64_t limit_bytes, MetricsPage& page) {
  page.Add("capstan_server_memory_bytes", {{"use", "replies"}}, static_cast<double>(held_bytes));
  page.Add("capstan_server_reply_limit_bytes", static_cast<double>(limit_bytes));
}

}  // namespace capstan
