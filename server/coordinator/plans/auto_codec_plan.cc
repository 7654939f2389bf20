#include "server/coordinator/plans/auto_codec_plan.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/ids.h"
#include "common/codec/codec.h"
#include "common/codec/table_codecs.h"
#include "common/job/job_properties.h"
#include "common/routing/job_view.h"
#include "common/tensor/slicing.h"
#include "server/coordinator/plans/schedule_plan.h"

namespace capstan {
namespace {

// So many show what a step is like.
constexpr int64_t kMeasuredSteps = 10;
// The same of rounds of local steps, which may take an hour each.
constexpr int64_t kMeasuredRounds = 5;

double EncodedBytes(const Codec& codec, uint64_t elements, uint64_t slice_bytes) {
  const Slicing slicing(elements, slice_bytes);
  double bytes = 0;
  for (uint32_t slice = 0; slice < slicing.slice_count(); ++slice) {
    bytes += static_cast<double>(codec.EncodedBytes(slicing.Range(SliceIndex(slice)).size));
  }
  return bytes;
}

bool IsMeasured(const v1::LinkMeasurement& links) {
  return links.bytes_per_second() > 0 && links.encode_bytes_per_second() > 0 &&
         links.decode_bytes_per_second() > 0;
}

struct StepTimes {
  double step = 0;     // the median, in seconds
  double waiting = 0;  // for the network
  int64_t least_steps = std::numeric_limits<int64_t>::max();
};

// The slowest worker sets the step, and waits the least: the others wait for it, too.
StepTimes TimesOf(const std::vector<v1::Progress>& measured) {
  StepTimes times;
  double least_share = 1;
  for (const v1::Progress& progress : measured) {
    const double share = progress.seconds_waiting() / progress.seconds();
    least_share = share < least_share ? share : least_share;
    if (!(share >= 0)) least_share = 0;  // Not a number, or less than nothing.
    times.step = std::max(times.step, progress.median_step_seconds());
    times.least_steps = std::min(times.least_steps, progress.steps_done());
  }
  times.waiting = least_share * times.step;
  return times;
}

std::string StaysText(const std::string& why) { return absl::StrCat("float32, because ", why); }

}  // namespace

AutoCodecPlan::AutoCodecPlan(const v1::JobSpec& job, const v1::CheckpointManifest& restored,
                             const v1::LinkReport& links)
    : links_(links),
      codec_(job.codec()),
      is_wanted_(HasAutoCodec(codec_)),
      first_step_(restored.step()),
      workers_(job.cluster().num_workers()),
      servers_(job.cluster().num_servers()) {
  if (is_wanted_) choice_ = restored.auto_codecs();
  is_lasting_ = has_chosen();
}

void AutoCodecPlan::OnPlacement(const JobFacts& facts) {
  if (!is_wanted_) return;
  const uint64_t slice_bytes = SliceBytes(facts.view.scheduler());
  uint32_t id = 0;
  for (const v1::TableSpec& spec : facts.tables.specs()) {
    const uint64_t elements = ElementCount(spec);
    const auto bytes = static_cast<double>(elements * sizeof(float));
    const TableCodecs codecs = CodecsOfTable(codec_, spec.name(), elements, slice_bytes).value();
    const double pushed = EncodedBytes(*codecs.push, elements, slice_bytes);
    const double pulled = EncodedBytes(*codecs.pull, elements, slice_bytes);
    before_.pushed += codecs.is_auto_push ? bytes : pushed;
    before_.pulled += codecs.is_auto_pull ? bytes : pulled;
    Table table;
    table.name = spec.name();
    table.id = id++;
    if (codecs.is_auto_push) {
      table.as_float32.pushed = bytes;
      table.saved.pushed = bytes - pushed;
    }
    if (codecs.is_auto_pull) {
      table.as_float32.pulled = bytes;
      table.saved.pulled = bytes - pulled;
    }
    if (codecs.is_auto_push || codecs.is_auto_pull) tables_.push_back(std::move(table));
  }
  const auto size = [](const Table& table) {
    return table.as_float32.pushed + table.as_float32.pulled;
  };
  std::stable_sort(tables_.begin(), tables_.end(),
                   [&size](const Table& a, const Table& b) { return size(a) > size(b); });
}

void AutoCodecPlan::OnServerLost(const LostServer&, const JobFacts& facts) {
  loss_version_ = facts.view.version() + 1;
  begins_.clear();
}

std::optional<v1::Progress> AutoCodecPlan::MeasuredOf(const Member& worker, int64_t least_steps) {
  v1::Progress measured = worker.progress;
  int64_t first_step = first_step_;
  if (loss_version_ > 0) {
    if (worker.view_version < loss_version_) return std::nullopt;
    // The step that is under way has waited for another server.
    Begin& begin =
        begins_.try_emplace(worker.incarnation, Begin{measured.steps_done() + 1, {}}).first->second;
    if (measured.steps_done() < begin.step) return std::nullopt;
    if (!begin.progress.has_value()) begin.progress = measured;
    first_step = begin.progress->steps_done();
    measured.set_seconds(measured.seconds() - begin.progress->seconds());
    measured.set_seconds_waiting(measured.seconds_waiting() - begin.progress->seconds_waiting());
  }
  if (measured.steps_done() < first_step + least_steps) return std::nullopt;
  return measured;
}

bool AutoCodecPlan::Settle(const JobFacts& facts, JobEvents& events) {
  if (facts.view.phase() != v1::TRAINING) return false;
  if (!is_wanted_ || has_chosen()) return false;
  const std::vector<const Member*> computing = facts.members.Computing();
  const bool has_rounds = facts.view.has_local_steps();
  std::vector<v1::Progress> measured;
  for (const Member* worker : computing) {
    auto progress = MeasuredOf(*worker, has_rounds ? kMeasuredRounds : kMeasuredSteps);
    if (progress.has_value()) measured.push_back(*std::move(progress));
  }
  if (measured.empty() || measured.size() < computing.size()) return false;
  choice_ = Choose(measured, has_rounds ? "round" : "step");
  is_lasting_ = IsMeasured(links_.slowest());
  events.emplace_back(absl::StrCat("auto codecs: ", choice_.text()));
  return true;
}

void AutoCodecPlan::WriteToView(v1::JobView& view) const {
  if (has_chosen()) *view.mutable_auto_codecs() = choice_;
}

void AutoCodecPlan::WriteToStatus(v1::GetStatusReply& status) const {
  if (is_wanted_) *status.mutable_auto_codecs() = choice_;
}

void AutoCodecPlan::WriteToManifest(v1::CheckpointManifest& manifest) const {
  if (is_lasting_) *manifest.mutable_auto_codecs() = choice_;
}

void AutoCodecPlan::WriteToState(v1::CoordinatorState& state) const {
  state.set_has_lasting_codecs(is_lasting_);
}

void AutoCodecPlan::Restore(const v1::CoordinatorState& state, const JobFacts& facts) {
  if (!facts.is_placed()) return;
  OnPlacement(facts);
  OnServerLost({}, facts);
  if (is_wanted_) choice_ = state.view().auto_codecs();
  is_lasting_ = state.has_lasting_codecs();
}

// A server decodes the pushes of all workers, and encodes its values once.
double AutoCodecPlan::CostOf(const Table& table) const {
  const v1::LinkMeasurement& links = links_.slowest();
  const Bytes& bytes = table.as_float32;
  return (bytes.pushed + bytes.pulled / servers_) / links.encode_bytes_per_second() +
         (bytes.pulled + bytes.pushed * workers_ / servers_) / links.decode_bytes_per_second();
}

v1::AutoCodecs AutoCodecPlan::Choose(const std::vector<v1::Progress>& measured,
                                     absl::string_view step_name) const {
  const v1::LinkMeasurement& links = links_.slowest();
  v1::AutoCodecs choice;
  if (tables_.empty() || !IsMeasured(links)) {
    choice.set_text(StaysText(tables_.empty() ? "no table is large enough (--field=codec.min_bytes)"
                                              : "there are no links that were measured"));
    return choice;
  }
  const StepTimes times = TimesOf(measured);
  // Links carry both ways at once.
  const auto sending = [&links](const Bytes& bytes) {
    return std::max(bytes.pushed, bytes.pulled) / links.bytes_per_second();
  };
  Bytes now = before_;
  double saved = 0, cost = 0, saved_by_all = 0, cost_of_all = 0;
  std::vector<std::string> names;
  for (const Table& table : tables_) {
    const Bytes then = {now.pushed - table.saved.pushed, now.pulled - table.saved.pulled};
    const double gain = std::min(sending(now) - sending(then), times.waiting - saved);
    saved_by_all += sending(now) - sending(then);
    cost_of_all += CostOf(table);
    if (!(gain > CostOf(table) && times.step > 0)) continue;
    now = then;
    saved += gain;
    cost += CostOf(table);
    names.push_back(table.name);
    choice.add_tables(table.id);
  }
  std::sort(choice.mutable_tables()->begin(), choice.mutable_tables()->end());
  const bool pays = !names.empty();
  const std::string why = absl::StrFormat(
      "a %s of %.3g s waits %.3g s for the network; on links of %.3g Gbit/s int8 saves %.3g s, "
      "and coding takes %.3g s",
      step_name, times.step, times.waiting, links.bytes_per_second() * 8e-9,
      pays ? saved : saved_by_all, pays ? cost : cost_of_all);
  if (!pays) {
    choice.set_text(StaysText(why));
    return choice;
  }
  choice.set_first_step(FirstStepAfterNews(times.least_steps, times.step));
  choice.set_text(absl::StrCat("int8 from ", step_name, " ", choice.first_step(), " on for ",
                               names.size() == tables_.size()
                                   ? "all tables that have it"
                                   : absl::StrCat("the tables ", absl::StrJoin(names, ", ")),
                               ", because ", why));
  return choice;
}

}  // namespace capstan
