#include "worker/runtime/worker_metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/metrics/metric_list.h"

namespace capstan {
namespace {

void AddStepParts(const TrainingLoop::StepParts& parts, MetricsPage& page) {
  constexpr absl::string_view kName = "capstan_step_seconds_total";
  page.Add(kName, {{"part", "compute"}}, absl::ToDoubleSeconds(parts.compute));
  page.Add(kName, {{"part", "wait"}}, absl::ToDoubleSeconds(parts.wait));
  page.Add(kName, {{"part", "send"}}, absl::ToDoubleSeconds(parts.send));
}

void AddStaleness(const StoreTraffic& traffic, MetricsPage& page) {
  const absl::Span<const double> bounds = StalenessBounds();
  std::vector<uint64_t> buckets(bounds.size() + 1);
  const std::vector<uint64_t>& counts = traffic.replies_of_staleness;
  for (size_t steps = 0; steps < counts.size(); ++steps) {
    const auto bound = std::lower_bound(bounds.begin(), bounds.end(), static_cast<double>(steps));
    buckets[bound - bounds.begin()] += counts[steps];
  }
  const auto replies =
      static_cast<double>(std::accumulate(counts.begin(), counts.end(), uint64_t{0}));
  page.AddHistogram("capstan_staleness_steps", bounds, buckets,
                    std::round(traffic.mean_staleness_seen * replies));
}

void AddTraffic(const StoreTraffic& traffic, MetricsPage& page) {
  page.Add("capstan_exchanges_total", static_cast<double>(traffic.exchanges));
  traffic.pushed_by_codec.ForEach([&page](absl::string_view codec, uint64_t bytes) {
    page.Add("capstan_pushed_bytes_total", {{"codec", codec}}, static_cast<double>(bytes));
  });
  traffic.pulled_by_codec.ForEach([&page](absl::string_view codec, uint64_t bytes) {
    page.Add("capstan_pulled_bytes_total", {{"codec", codec}}, static_cast<double>(bytes));
  });
  AddStaleness(traffic, page);
  page.Add("capstan_codec_seconds_total", absl::ToDoubleSeconds(traffic.coding));
}

void AddQueues(const std::map<int, Scheduler::Waiting>& waiting, MetricsPage& page) {
  for (const auto& [layer, queue] : waiting) {
    const std::string priority = absl::StrCat(layer);
    page.Add("capstan_scheduler_queue_length", {{"priority", priority}},
             static_cast<double>(queue.count));
    page.Add("capstan_scheduler_queue_seconds_total", {{"priority", priority}},
             absl::ToDoubleSeconds(queue.time));
  }
}

}  // namespace

void AddWorkerMetrics(const WorkerCounts& counts, MetricsPage& page) {
  page.Add("capstan_steps_total", static_cast<double>(counts.progress.steps_done()));
  page.Add("capstan_samples_total", static_cast<double>(counts.progress.samples()));
  page.Add("capstan_local_steps_total", static_cast<double>(counts.progress.local_steps()));
  page.Add("capstan_local_drift", counts.progress.drift());
  page.Add("capstan_loss", counts.progress.loss());
  AddStepParts(counts.step_parts, page);
  AddTraffic(counts.traffic, page);
  page.Add("capstan_retries_total", static_cast<double>(counts.retries));
  AddQueues(counts.waiting, page);
  if (!counts.copied.has_value()) return;
  constexpr absl::string_view kCopied = "capstan_gpu_copied_bytes_total";
  page.Add(kCopied, {{"direction", "to_gpu"}}, static_cast<double>(counts.copied->to_gpu));
  page.Add(kCopied, {{"direction", "to_host"}}, static_cast<double>(counts.copied->to_host));
}

}  // namespace capstan
