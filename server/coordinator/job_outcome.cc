#include "server/coordinator/job_outcome.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/base/printable_text.h"
#include "common/job/job_properties.h"
#include "common/routing/copies_text.h"
#include "proto/coordinator_service.pb.h"
#include "server/coordinator/training_verdict.h"

namespace capstan {
namespace {

struct Mean {
  double sum = 0;
  int count = 0;

  void Add(double value) {
    sum += value;
    ++count;
  }
  double Or(double none) const { return count == 0 ? none : sum / count; }
};

// The workers' progress as one.
struct Totals {
  Mean live_loss;   // over the live workers with samples
  Mean first_loss;  // over all workers with a first loss, also replaced ones
  Mean live_drift;  // over the live workers with one
  double largest_loss = 0;
  int64_t max_steps = 0;
  uint64_t samples = 0;
  uint64_t local_steps = 0;
  uint64_t bytes_pushed = 0;
  uint64_t bytes_pulled = 0;
  uint64_t float_bytes_pushed = 0;
  uint64_t float_bytes_pulled = 0;
  double gradient_squares = 0;
  double residual_squares = 0;
  double seconds_coding = 0;
  double mean_staleness_seen = 0;  // each worker has had about as many replies
  int64_t max_staleness_seen = 0;
  double median_step_seconds = 0;  // of the slowest worker
};

void Add(const v1::Progress& progress, Totals& totals) {
  if (progress.has_first_loss()) totals.first_loss.Add(progress.first_loss());
  totals.largest_loss = std::max(totals.largest_loss, progress.largest_loss());
  totals.max_steps = std::max(totals.max_steps, progress.steps_done());
  totals.samples += progress.samples();
  totals.local_steps += progress.local_steps();
  totals.bytes_pushed += progress.bytes_pushed();
  totals.bytes_pulled += progress.bytes_pulled();
  totals.float_bytes_pushed += progress.float_bytes_pushed();
  totals.float_bytes_pulled += progress.float_bytes_pulled();
  totals.gradient_squares += progress.gradient_squares();
  totals.residual_squares += progress.residual_squares();
  totals.seconds_coding += progress.seconds_coding();
  totals.mean_staleness_seen += progress.mean_staleness_seen();
  totals.max_staleness_seen = std::max(totals.max_staleness_seen, progress.max_staleness_seen());
  totals.median_step_seconds = std::max(totals.median_step_seconds, progress.median_step_seconds());
}

bool HasOnlyRows(const v1::JobView& view) {
  const auto& tables = view.tables();
  return !tables.empty() && std::all_of(tables.begin(), tables.end(),
                                        [](const v1::TableSpec& one) { return one.has_sparse(); });
}

bool IsProgram(const v1::JobSpec& job) { return job.model().type() == v1::ModelSpec::PROGRAM; }

// A program that does not know its loss reports none that is a number.
bool HasLoss(const v1::JobSpec& job, const v1::Progress& progress) {
  return progress.samples() > 0 && !(IsProgram(job) && std::isnan(progress.loss()));
}

Totals TotalsOf(const v1::JobSpec& job, const JobOutcome& outcome) {
  const v1::GetStatusReply& status = outcome.last_status;
  Totals totals;
  for (int worker = 0; worker < status.progress_size(); ++worker) {
    const v1::Progress& progress = status.progress(worker);
    Add(progress, totals);
    if (!status.view().workers(worker).is_live()) continue;
    if (HasLoss(job, progress)) totals.live_loss.Add(progress.loss());
    if (progress.drift() > 0) totals.live_drift.Add(progress.drift());
  }
  for (const v1::Progress& progress : status.replaced_workers()) Add(progress, totals);
  const int workers = status.progress_size() + status.replaced_workers_size();
  totals.mean_staleness_seen /= std::max(1, workers);
  return totals;
}

const char* OutcomeText(const absl::Status& status) {
  if (status.ok()) return "finished";
  return absl::IsCancelled(status) ? "interrupted" : "failed";
}

// What the workers computed on, and how they reached the servers.
void WriteMeans(const v1::GetStatusReply& status, nlohmann::ordered_json& summary) {
  std::set<std::string> transports;
  summary["devices"] = nlohmann::ordered_json::array();
  for (const v1::Progress& progress : status.progress()) {
    summary["devices"].push_back(progress.device());
    if (!progress.transport().empty()) transports.insert(progress.transport());
  }
  if (!transports.empty()) summary["transport"] = absl::StrJoin(transports, ", ");
}

// What the model has learned. Only a job that has finished has been tested. A program tells what it
// knows.
void WriteResult(const v1::JobSpec& job, const JobOutcome& outcome, const Totals& totals,
                 nlohmann::ordered_json& summary) {
  const v1::ReportResultRequest& result = outcome.result;
  const bool has_finished = outcome.status.ok();
  if (has_finished && !result.has_no_accuracy()) summary["test_accuracy"] = result.test_accuracy();
  if (has_finished && !result.has_no_loss()) summary["test_loss"] = result.test_loss();
  if (has_finished && result.has_test_auc()) summary["test_auc"] = result.test_auc();
  if (has_finished && result.has_best_auc()) summary["best_auc"] = result.best_auc();
  if (has_finished && result.has_nonzero_weights()) {
    summary["nonzero_weights"] = result.nonzero_weights();
  }
  if (totals.live_loss.count > 0 || (has_finished && !IsProgram(job))) {
    summary["train_loss"] = totals.live_loss.Or(0);
  }
}

// Each step was a round of local steps.
void WriteRounds(const v1::LocalSteps& local_steps, const Totals& totals,
                 nlohmann::ordered_json& summary) {
  summary["local_steps"] = totals.local_steps;
  if (local_steps.sync_every() > 0) summary["sync_every"] = local_steps.sync_every();
  if (local_steps.round_seconds() > 0) summary["round_seconds"] = local_steps.round_seconds();
  if (totals.live_drift.count > 0) summary["drift"] = totals.live_drift.Or(0);
}

nlohmann::ordered_json StalenessOf(const v1::ConsistencySpec& consistency) {
  switch (consistency.mode()) {
    case v1::ConsistencySpec::BSP:
      return 0;
    case v1::ConsistencySpec::SSP:
      return consistency.staleness();
    case v1::ConsistencySpec::ASYNC:
    case v1::ConsistencySpec::MODE_UNSPECIFIED:
      break;
  }
  return nullptr;
}

void WriteConsistency(const v1::ConsistencySpec& consistency, nlohmann::ordered_json& object) {
  object["consistency"] = absl::AsciiStrToLower(v1::ConsistencySpec::Mode_Name(consistency.mode()));
  object["staleness"] = StalenessOf(consistency);
}

std::string WarningOfTraining(const v1::JobSpec& job, const JobOutcome& outcome,
                              const Totals& totals) {
  if (!outcome.status.ok()) return "";  // It has not been tested.
  if (LearnsNothing(job.model())) return "";
  const v1::ReportResultRequest& result = outcome.result;
  TrainingCourse course;
  course.steps = totals.max_steps;
  if (totals.first_loss.count > 0) course.first_loss = totals.first_loss.Or(0);
  course.largest_loss = totals.largest_loss;
  // What a program has not told counts as finite.
  course.test_loss = result.has_no_loss() ? 0 : result.test_loss();
  course.test_accuracy = result.has_no_accuracy() ? 0 : result.test_accuracy();
  course.last_loss = totals.live_loss.Or(course.test_loss);
  course.test_samples = result.test_samples();
  course.guess_loss = result.guess_loss();
  course.guess_accuracy = result.guess_accuracy();
  constexpr size_t kMostBytes = 1000;
  course.data_warning = PrintableText(result.data_warning().substr(0, kMostBytes));
  return TrainingWarning(job, course);
}

// Empty if the last checkpoint that was tried is complete.
std::string WarningOfCheckpoints(const v1::CheckpointStatus& checkpoints) {
  if (checkpoints.error().empty()) return "";
  return absl::StrCat(
      checkpoints.newest().empty()
          ? "no checkpoint could be written: "
          : absl::StrCat("the newest checkpoint is of step ", checkpoints.step(), ": "),
      checkpoints.error());
}

// Empty if the bits are those of an undisturbed job, or if nothing has come of the job.
std::string WarningOfBits(const JobOutcome& outcome) {
  if (!outcome.status.ok() || !outcome.has_other_bits) return "";
  return "a worker was lost before its last step under bsp, so the bits are not those of an "
         "undisturbed job";
}

// Empty if no copy was given up.
std::string WarningOfCopies(const v1::CopyReport& copies) {
  const std::string given_up = GivenUpText(copies);
  return given_up.empty() ? "" : absl::StrCat(given_up, "; the job went on with one copy of it");
}

// "2 servers were lost, and 1 was replaced; nothing was lost; one copy is left of 12 shards".
std::string LossesText(uint32_t lost, uint32_t replaced, int64_t without_copy) {
  std::string text = absl::StrCat(lost, lost == 1 ? " server was lost" : " servers were lost");
  if (replaced == lost) {
    absl::StrAppend(&text, " and replaced");
  } else if (replaced > 0) {
    absl::StrAppend(&text, ", and ", replaced, replaced == 1 ? " was" : " were", " replaced");
  }
  absl::StrAppend(&text, "; nothing was lost");
  if (without_copy > 0) {
    absl::StrAppend(&text, "; one copy is left of ", without_copy,
                    without_copy == 1 ? " shard" : " shards");
  }
  return text;
}

void WriteServerLosses(const JobOutcome& outcome, nlohmann::ordered_json& summary) {
  const v1::GetStatusReply& status = outcome.last_status;
  const auto& copies = status.view().copies();
  const int64_t without_copy = std::count_if(
      copies.begin(), copies.end(), [](const v1::ShardCopy& copy) { return !copy.is_whole(); });
  const uint32_t lost = status.servers_lost();
  summary["servers_lost"] = lost;
  summary["servers_replaced"] = status.servers_replaced();
  summary["shards_without_copy"] = without_copy;
  if (!outcome.status.ok() || lost == 0) return;
  summary["server_losses"] = LossesText(lost, status.servers_replaced(), without_copy);
}

nlohmann::ordered_json PointOf(const v1::TuningReport::Point& point) {
  return {{"partition_bytes", point.partition_bytes()},
          {"credit_bytes", point.credit_bytes()},
          {"step_seconds", point.step_seconds()}};
}

// `chosen` and `reason` only when tuning has ended.
nlohmann::ordered_json TuningOf(const v1::TuningReport& tuning) {
  nlohmann::ordered_json written;
  if (tuning.has_chosen()) {
    written["chosen"] = PointOf(tuning.chosen());
    written["reason"] = tuning.reason();
  }
  written["tried"] = nlohmann::ordered_json::array();
  for (const v1::TuningReport::Point& point : tuning.tried()) {
    written["tried"].push_back(PointOf(point));
  }
  return written;
}

nlohmann::ordered_json LinksOf(const v1::LinkReport& links) {
  nlohmann::ordered_json written = {{"bytes_per_second", links.slowest().bytes_per_second()},
                                    {"round_trip_seconds", links.slowest().round_trip_seconds()},
                                    {"measured_seconds", links.slowest().seconds()},
                                    {"text", links.text()}};
  if (links.slowest().encode_bytes_per_second() > 0) {
    written["int8_encode_bytes_per_second"] = links.slowest().encode_bytes_per_second();
    written["int8_decode_bytes_per_second"] = links.slowest().decode_bytes_per_second();
  }
  const v1::SchedulerSpec& chosen = links.chosen();
  if (chosen.has_slice_bytes()) written["slice_bytes"] = chosen.slice_bytes();
  if (chosen.has_partition_bytes()) written["partition_bytes"] = chosen.partition_bytes();
  if (chosen.has_credit_bytes()) written["credit_bytes"] = chosen.credit_bytes();
  return written;
}

nlohmann::ordered_json PeriodsOf(const v1::JobView& view) {
  nlohmann::ordered_json periods = nlohmann::ordered_json::array();
  for (const v1::ConsistencyPeriod& period : view.consistency()) {
    nlohmann::ordered_json& written = periods.emplace_back();
    written["from_step"] = period.first_step();
    WriteConsistency(period.consistency(), written);
    for (const v1::TableStaleness& own : period.consistency().table_staleness()) {
      written["table_staleness"][own.table()] = own.staleness();
    }
  }
  return periods;
}

// Not finite, so null in JSON, if `after` is 0.
double Ratio(double before, double after) {
  return after == 0 ? std::numeric_limits<double>::quiet_NaN() : before / after;
}

// What codecs have done for the job. `residual_ratio` compares root mean squares over all pushes.
void WriteCompression(const v1::JobSpec& job, const JobOutcome& outcome, const Totals& totals,
                      nlohmann::ordered_json& summary) {
  const v1::CodecSpec& codec = job.codec();
  summary["push_codec"] = codec.push();
  summary["pull_codec"] = codec.pull();
  summary["table_codec"] = nlohmann::ordered_json::object();
  for (const v1::TableCodec& own : codec.table_codec()) {
    summary["table_codec"][own.table()] = own.codec();
  }
  summary["codec_min_bytes"] = codec.min_bytes();
  if (outcome.last_status.has_auto_codecs()) {
    const v1::AutoCodecs& choice = outcome.last_status.auto_codecs();
    summary["auto_codecs"] = {
        {"first_step", choice.first_step()},
        {"text", choice.text().empty() ? "float32, because the job has ended after a few steps"
                                       : choice.text()}};
  }
  if (codec.dgc()) summary["dgc_momentum"] = codec.dgc_momentum();
  summary["bytes_pushed_float32"] = totals.float_bytes_pushed;
  summary["bytes_pulled_float32"] = totals.float_bytes_pulled;
  summary["push_ratio"] = Ratio(static_cast<double>(totals.float_bytes_pushed),
                                static_cast<double>(totals.bytes_pushed));
  summary["pull_ratio"] = Ratio(static_cast<double>(totals.float_bytes_pulled),
                                static_cast<double>(totals.bytes_pulled));
  summary["residual_ratio"] = std::sqrt(Ratio(totals.residual_squares, totals.gradient_squares));
  summary["codec_seconds"] = totals.seconds_coding;
  // A worker in another one's place begins with a residual of 0.
  summary["residuals_lost"] = HasPushCodec(codec) ? outcome.last_status.replaced_workers_size() : 0;
}

}  // namespace

std::string SummaryJson(const v1::JobSpec& job, const JobOutcome& outcome) {
  const Totals totals = TotalsOf(job, outcome);
  const double seconds = absl::ToDoubleSeconds(outcome.training_time);
  nlohmann::ordered_json summary;
  summary["job"] = job.name();
  summary["outcome"] = OutcomeText(outcome.status);
  if (!outcome.status.ok()) summary["reason"] = std::string(outcome.status.message());
  WriteConsistency(job.consistency(), summary);
  summary["consistency_periods"] = PeriodsOf(outcome.last_status.view());
  if (IsProgram(job)) summary["model"] = "program";
  summary["workers"] = job.cluster().num_workers();
  summary["servers"] = job.cluster().num_servers();
  WriteMeans(outcome.last_status, summary);
  const bool learns = !LearnsNothing(job.model());
  if (learns) WriteResult(job, outcome, totals, summary);
  std::vector<std::string> warnings = {WarningOfTraining(job, outcome, totals),
                                       WarningOfCheckpoints(outcome.last_status.checkpoint()),
                                       WarningOfBits(outcome),
                                       WarningOfCopies(outcome.last_status.copies())};
  warnings.insert(warnings.end(), outcome.device_notes.begin(), outcome.device_notes.end());
  warnings.erase(std::remove(warnings.begin(), warnings.end(), ""), warnings.end());
  if (!warnings.empty()) summary["warning"] = absl::StrJoin(warnings, "; ");
  summary["steps"] = totals.max_steps;
  const v1::JobView& view = outcome.last_status.view();
  if (view.has_local_steps()) WriteRounds(view.local_steps(), totals, summary);
  summary["seconds"] = seconds;
  summary["median_step_seconds"] = totals.median_step_seconds;
  summary["samples"] = totals.samples;
  summary["samples_per_s"] = seconds > 0 ? static_cast<double>(totals.samples) / seconds : 0.0;
  summary["bytes_pushed"] = totals.bytes_pushed;
  summary["bytes_pulled"] = totals.bytes_pulled;
  if (outcome.last_status.has_copies()) {
    summary["bytes_between_servers"] = outcome.last_status.copies().record_bytes();
    WriteServerLosses(outcome, summary);
  }
  if (HasCodec(job.codec())) WriteCompression(job, outcome, totals, summary);
  summary["mean_staleness_seen"] = totals.mean_staleness_seen;
  summary["max_staleness_seen"] = totals.max_staleness_seen;
  if (outcome.last_status.has_links()) summary["links"] = LinksOf(outcome.last_status.links());
  if (job.scheduler().tune()) summary["tuning"] = TuningOf(outcome.last_status.tuning());
  // The hash is of dense tables.
  if (outcome.status.ok() && outcome.result.has_parameters_xxh3() &&
      !HasOnlyRows(outcome.last_status.view())) {
    summary["parameters_xxh3"] = absl::StrFormat("%016x", outcome.result.parameters_xxh3());
  }
  summary["workers_lost"] = outcome.workers_lost;
  summary["workers_replaced"] = outcome.last_status.replaced_workers_size();
  for (const v1::PlaceReplacement& replacement : outcome.last_status.place_replacements()) {
    summary["place_replacements"].push_back({{"worker", replacement.worker()},
                                             {"step", replacement.step()},
                                             {"seconds", replacement.seconds()},
                                             {"text", replacement.text()}});
  }
  // A job's name need not be UTF-8.
  return summary.dump(/*indent=*/2, ' ', /*ensure_ascii=*/false,
                      nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace capstan
