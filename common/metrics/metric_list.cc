#include "common/metrics/metric_list.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace capstan {
namespace {

constexpr MetricType kCounter = MetricType::kCounter;
constexpr MetricType kGauge = MetricType::kGauge;
constexpr MetricType kHistogram = MetricType::kHistogram;

constexpr int kOfAll = kOfCoordinator | kOfServer | kOfWorker;
constexpr int kOfListening = kOfCoordinator | kOfServer;

constexpr Metric kMetrics[] = {
    {"capstan_member_info", kGauge, "role,id,job_name,version", kOfAll,
     "1, once the process is a member of the job. Its labels say which one."},
    {"process_resident_memory_bytes", kGauge, "", kOfAll, "Memory of the process in RAM."},
    {"process_cpu_seconds_total", kCounter, "", kOfAll, "CPU time of all threads."},
    {"process_open_fds", kGauge, "", kOfAll, "Open file descriptors."},
    {"process_start_time_seconds", kGauge, "", kOfAll, "Begin of the process, as Unix time."},
    {"capstan_coordinator_away_seconds", kGauge, "", kOfServer | kOfWorker,
     "Time since which the coordinator has not answered this process. 0 while it does."},

    {"capstan_refused_calls_total", kCounter, "reason", kOfListening,
     "Calls refused. Reasons: token (none, or a wrong one), right (the token lacks it), "
     "too_often (registrations), too_many_connections, other."},
    {"capstan_closed_connections_total", kCounter, "reason", kOfListening,
     "Connections that ended without an admitted call. Reasons: time (they had their time), bytes "
     "(they sent too much), too_many (they made room for others), ended (by the other side)."},
    {"capstan_connections", kGauge, "state", kOfListening,
     "Open connections: proved (a member's call was admitted), unproved (all others)."},

    {"capstan_job_phase", kGauge, "phase", kOfCoordinator, "1 for the present phase, else 0."},
    {"capstan_members", kGauge, "role,state", kOfCoordinator,
     "Members that are live, or that were declared dead and not replaced."},
    {"capstan_expected_members", kGauge, "role", kOfCoordinator,
     "Members that the job starts with."},
    {"capstan_workers_lost_total", kCounter, "", kOfCoordinator,
     "Workers declared dead or left, also those replaced."},
    {"capstan_workers_replaced_total", kCounter, "", kOfCoordinator,
     "Workers in whose place another one has entered."},
    {"capstan_places_held", kGauge, "", kOfCoordinator,
     "Lost workers whose places are held: under BSP the others wait."},
    {"capstan_place_held_seconds", kGauge, "", kOfCoordinator,
     "For how long the latest held place had no worker."},
    {"capstan_servers_lost_total", kCounter, "", kOfCoordinator,
     "Servers declared dead or left, also those replaced."},
    {"capstan_servers_replaced_total", kCounter, "", kOfCoordinator,
     "Servers whose place another one has taken."},
    {"capstan_coordinator_term", kGauge, "", kOfCoordinator,
     "1 for the job's first coordinator, 1 more for each that has taken over. 0 without --state."},
    {"capstan_state_waiting_seconds", kGauge, "", kOfCoordinator,
     "For how long answers have waited until the job's state is kept. 0: none waits."},
    {"capstan_copies_whole", kGauge, "", kOfCoordinator,
     "Whole second copies of shards; 0 without --replicas=2."},
    {"capstan_records_unanswered", kGauge, "", kOfCoordinator,
     "Records that a copy has not answered yet."},
    {"capstan_held_replies", kGauge, "", kOfCoordinator, "Replies that wait for a copy."},
    {"capstan_record_bytes_total", kCounter, "", kOfCoordinator, "Bytes of records sent."},
    {"capstan_staleness_bound_steps", kGauge, "", kOfCoordinator,
     "Steps by which workers may differ: 0 under BSP, +Inf under async."},
    {"capstan_worker_steps_total", kCounter, "worker", kOfCoordinator,
     "Steps done, as the worker last reported."},
    {"capstan_worker_samples_total", kCounter, "worker", kOfCoordinator,
     "Samples trained on, as the worker last reported."},
    {"capstan_worker_loss", kGauge, "worker", kOfCoordinator,
     "Mean loss of the latest steps, as the worker last reported. It can be NaN."},
    {"capstan_worker_steps_ahead", kGauge, "worker", kOfCoordinator,
     "Steps by which the worker is ahead of the slowest one, as it last reported."},
    {"capstan_checkpoint_step", kGauge, "", kOfCoordinator,
     "Step of the newest complete checkpoint; 0 if there is none."},
    {"capstan_checkpoint_failed", kGauge, "", kOfCoordinator,
     "1 if the latest attempt to write a checkpoint failed, else 0."},

    {"capstan_steps_total", kCounter, "", kOfWorker,
     "Steps done. A worker in a lost one's place counts from its first step."},
    {"capstan_samples_total", kCounter, "", kOfWorker, "Samples trained on."},
    {"capstan_local_steps_total", kCounter, "", kOfWorker, "Local steps done."},
    {"capstan_local_drift", kGauge, "", kOfWorker, "Drift of the latest round (capstan.h)."},
    {"capstan_loss", kGauge, "", kOfWorker,
     "Mean loss over the samples of the latest 50 steps. It can be NaN."},
    {"capstan_step_seconds_total", kCounter, "part", kOfWorker,
     "Time of the training thread. Parts: compute, wait (for values), send (handing gradients to "
     "the network)."},
    {"capstan_exchanges_total", kCounter, "", kOfWorker,
     "Exchanges answered without an error, also those of the test at the end."},
    {"capstan_pushed_bytes_total", kCounter, "codec", kOfWorker,
     "Bytes of gradients that servers have taken, as encoded."},
    {"capstan_pulled_bytes_total", kCounter, "codec", kOfWorker,
     "Bytes of values that came, as encoded, without those of the test at the end."},
    {"capstan_staleness_steps", kHistogram, "", kOfWorker,
     "For each reply, by how many steps the worker was ahead of the slowest one."},
    {"capstan_retries_total", kCounter, "", kOfWorker,
     "Exchanges sent again, after a loss, a refusal for now, or a move of the shard."},
    {"capstan_scheduler_queue_length", kGauge, "priority", kOfWorker,
     "Transfers that wait for credit, by layer: 0 goes first."},
    {"capstan_scheduler_queue_seconds_total", kCounter, "priority", kOfWorker,
     "Time that a layer's transfers have waited for credit."},
    {"capstan_codec_seconds_total", kCounter, "", kOfWorker, "CPU time of encoding and decoding."},
    {"capstan_gpu_copied_bytes_total", kCounter, "direction", kOfWorker,
     "Bytes copied to_gpu and to_host.", /*needs_gpu=*/true},

    {"capstan_server_exchanges_total", kCounter, "kind", kOfServer,
     "Exchanges of live workers that reached a shard, also repeated ones. Kinds: push, pull, "
     "push_pull, own_state (a worker's, for checkpoints, or an optimizer's), initial_values "
     "(worker 0's), collective (parts in operations of all workers)."},
    {"capstan_server_received_bytes_total", kCounter, "codec", kOfServer,
     "Bytes of gradients and states in these exchanges, as encoded."},
    {"capstan_server_sent_bytes_total", kCounter, "codec", kOfServer,
     "Bytes of values and states in answers, as encoded. Values beyond a connection's bound "
     "are dropped and made again, and then count twice."},
    {"capstan_server_parked_replies", kGauge, "", kOfServer,
     "Pulls that wait until the consistency allows an answer."},
    {"capstan_server_apply_seconds_total", kCounter, "", kOfServer,
     "Time of exchanges under a shard's lock: check, decode, sum, apply, encode."},
    {"capstan_server_lock_wait_seconds_total", kCounter, "", kOfServer,
     "Time of exchanges that waited for a shard's lock."},
    {"capstan_server_memory_bytes", kGauge, "use", kOfServer,
     "Memory for parameters, optimizer (its state), accumulators (gradients of open steps), "
     "replies (held until workers take them), copies (of what workers have, encoded values, rows "
     "changed since a cut). With buffers kept for reuse; without the rest of checkpoints."},
    {"capstan_server_reply_limit_bytes", kGauge, "", kOfServer,
     "Bound of the memory for replies: the workers' connections x transport.max_inflight_bytes."},
    {"capstan_server_rows", kGauge, "", kOfServer, "Rows of sparse tables."},
    {"capstan_server_duplicate_pushes_total", kCounter, "", kOfServer,
     "Pushes that had been applied before, and were not applied again."},
    {"capstan_server_non_finite_pushes_total", kCounter, "worker", kOfServer,
     "Pushes refused for a NaN or an infinity."},
};

constexpr double kStalenessBounds[] = {0, 1, 2, 4, 8, 16, 32, 64};

absl::string_view TypeName(MetricType type) {
  switch (type) {
    case MetricType::kCounter:
      return "counter";
    case MetricType::kGauge:
      return "gauge";
    case MetricType::kHistogram:
      return "histogram";
  }
  return "";
}

std::string ProgramNames(int programs) {
  if (programs == kOfAll) return "all";
  std::vector<absl::string_view> names;
  if ((programs & kOfCoordinator) != 0) names.push_back("coordinator");
  if ((programs & kOfServer) != 0) names.push_back("server");
  if ((programs & kOfWorker) != 0) names.push_back("worker");
  return absl::StrJoin(names, ", ");
}

std::string LabelText(absl::string_view labels) {
  if (labels.empty()) return "";
  return absl::StrCat("{", absl::StrJoin(absl::StrSplit(labels, ','), ", "), "}");
}

}  // namespace

absl::Span<const Metric> MetricList() { return kMetrics; }

const Metric* FindMetric(absl::string_view name) {
  for (const Metric& metric : kMetrics) {
    if (metric.name == name) return &metric;
  }
  return nullptr;
}

absl::Span<const double> StalenessBounds() { return kStalenessBounds; }

std::string MetricTable() {
  std::string table = "| metric | type | served by | meaning |\n|---|---|---|---|\n";
  for (const Metric& metric : kMetrics) {
    absl::StrAppend(&table, "| `", metric.name, LabelText(metric.labels), "` | ",
                    TypeName(metric.type), " | ", ProgramNames(metric.programs),
                    metric.needs_gpu ? " with a GPU" : "", " | ", metric.help, " |\n");
  }
  return table;
}

}  // namespace capstan
