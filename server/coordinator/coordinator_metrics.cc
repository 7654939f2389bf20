#include "server/coordinator/coordinator_metrics.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace capstan {
namespace {

void AddPhase(v1::Phase phase, MetricsPage& page) {
  for (int number = v1::REGISTERING; number <= v1::Phase_MAX; ++number) {
    const std::string name = absl::AsciiStrToLower(v1::Phase_Name(static_cast<v1::Phase>(number)));
    page.Add("capstan_job_phase", {{"phase", name}}, number == phase ? 1 : 0);
  }
}

template <typename Members>
int LiveCount(const Members& members) {
  return static_cast<int>(std::count_if(members.begin(), members.end(),
                                        [](const auto& member) { return member.is_live(); }));
}

void AddMembers(absl::string_view role, int live, int registered, uint32_t expected,
                MetricsPage& page) {
  page.Add("capstan_members", {{"role", role}, {"state", "live"}}, live);
  page.Add("capstan_members", {{"role", role}, {"state", "dead"}}, registered - live);
  page.Add("capstan_expected_members", {{"role", role}}, expected);
}

double StalenessBound(const v1::JobView& view) {
  if (view.consistency().empty()) return 0;
  const v1::ConsistencySpec& latest = view.consistency().rbegin()->consistency();
  switch (latest.mode()) {
    case v1::ConsistencySpec::ASYNC:
      return std::numeric_limits<double>::infinity();
    case v1::ConsistencySpec::SSP:
      return static_cast<double>(latest.staleness());
    default:
      return 0;
  }
}

// A worker that enters in a lost one's place has not reported its first step yet: to Prometheus a
// counter that falls to 0 in between would look like all steps done anew.
bool HasReported(const v1::WorkerInfo& worker, const v1::Progress& progress) {
  return !worker.is_live() ||
         (!worker.is_entering() && progress.steps_done() >= worker.first_step());
}

void AddProgress(const v1::WorkerInfo& info, const v1::Progress& progress, MetricsPage& page) {
  if (!HasReported(info, progress)) return;
  const std::string worker = absl::StrCat(info.worker());
  const auto add = [&page, &worker](absl::string_view name, double value) {
    page.Add(name, {{"worker", worker}}, value);
  };
  add("capstan_worker_steps_total", static_cast<double>(progress.steps_done()));
  add("capstan_worker_samples_total", static_cast<double>(progress.samples()));
  if (!info.is_live()) return;  // its last numbers say nothing of now
  add("capstan_worker_loss", progress.loss());
  add("capstan_worker_steps_ahead", static_cast<double>(progress.steps_ahead()));
}

void AddCopies(const v1::CopyReport& copies, MetricsPage& page) {
  page.Add("capstan_copies_whole", copies.whole_size());
  page.Add("capstan_records_unanswered", static_cast<double>(copies.records_unanswered()));
  page.Add("capstan_held_replies", static_cast<double>(copies.held_replies()));
  page.Add("capstan_record_bytes_total", static_cast<double>(copies.record_bytes()));
}

int HeldPlacesIn(const v1::JobView& view) {
  return static_cast<int>(std::count_if(
      view.workers().begin(), view.workers().end(),
      [](const v1::WorkerInfo& worker) { return worker.holds_place() && !worker.is_live(); }));
}

}  // namespace

void AddJobMetrics(const v1::GetStatusReply& status, int workers_lost, MetricsPage& page) {
  const v1::JobView& view = status.view();
  AddPhase(view.phase(), page);
  AddMembers("server", LiveCount(view.servers()), view.servers_size(), status.num_servers(), page);
  AddMembers("worker", LiveCount(view.workers()), view.workers_size(), status.num_workers(), page);
  page.Add("capstan_workers_lost_total", workers_lost);
  page.Add("capstan_workers_replaced_total", status.replaced_workers_size());
  page.Add("capstan_places_held", HeldPlacesIn(view));
  const int replacements = status.place_replacements_size();
  const double held_seconds =
      replacements > 0 ? status.place_replacements(replacements - 1).seconds() : 0;
  page.Add("capstan_place_held_seconds", held_seconds);
  page.Add("capstan_servers_lost_total", status.servers_lost());
  page.Add("capstan_servers_replaced_total", status.servers_replaced());
  AddCopies(status.copies(), page);
  page.Add("capstan_staleness_bound_steps", StalenessBound(view));
  for (const v1::WorkerInfo& worker : view.workers()) {
    const int id = static_cast<int>(worker.worker());
    if (id < status.progress_size()) AddProgress(worker, status.progress(id), page);
  }
  page.Add("capstan_checkpoint_step", static_cast<double>(status.checkpoint().step()));
  page.Add("capstan_checkpoint_failed", status.checkpoint().error().empty() ? 0 : 1);
}

}  // namespace capstan
