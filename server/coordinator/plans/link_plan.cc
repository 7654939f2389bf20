#include "server/coordinator/plans/link_plan.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/codec/codec.h"
#include "common/codec/table_codecs.h"
#include "common/job/field_text.h"
#include "common/job/job_properties.h"
#include "common/tensor/slicing.h"

namespace capstan {
namespace {

// Fewer bytes are sent in a moment.
constexpr uint64_t kLeastModelBytes = 10'000'000;

// The time for which a link is blocked by what has been started: more urgent values wait so long.
constexpr double kUnitSeconds = 0.0015;
constexpr uint64_t kLeastUnit = 64 << 10;
constexpr uint64_t kMostUnit = 1 << 20;
// What is under way, so that a link never waits for the next unit; within 8 of the smallest units
// and 8 of the largest.
constexpr double kCreditSeconds = 0.012;
constexpr double kLeastCredit = 8 * kLeastUnit;
constexpr double kMostCredit = 8 * kMostUnit;
constexpr double kMostRoundTripCredit = 256 << 20;
// A link also stays busy with slices that could not be chosen for it.
constexpr double kLeastSlices = 4;
// Bounds the work for each slice of a huge model.
constexpr uint64_t kMostSlices = 1 << 20;

// The largest power of two whose transfer takes a unit's time, within bounds.
uint64_t UnitFor(double bytes_per_second) {
  uint64_t unit = kLeastUnit;
  while (unit < kMostUnit && 2 * static_cast<double>(unit) <= bytes_per_second * kUnitSeconds) {
    unit *= 2;
  }
  return unit;
}

// The bytes of a slice as it is sent, divided by its bytes as float32. If gradients and values
// differ, the larger quotient. An auto codec counts as int8, which it becomes on slow links.
double SentShare(const v1::CodecSpec& codec) {
  constexpr size_t kElements = 1 << 18;
  double share = 0;
  for (const std::string& name : {codec.push(), codec.pull()}) {
    const auto made = MakeCodec(name == kAutoCodec ? "int8" : name);
    const size_t bytes = made.ok() ? (*made)->EncodedBytes(kElements) : kElements * sizeof(float);
    share = std::max(share, static_cast<double>(bytes) / (kElements * sizeof(float)));
  }
  return share;
}

// The size in float32 of a slice that is about a unit long when it is sent.
uint64_t SliceFor(uint64_t unit, double sent_share, uint64_t model_bytes) {
  uint64_t slice = unit;
  while (slice < kMostUnit &&
         static_cast<double>(slice) * sent_share * 1.5 < static_cast<double>(unit)) {
    slice *= 2;
  }
  while (slice < kMaxSliceBytes && model_bytes / slice >= kMostSlices) slice *= 2;
  return slice;
}

// A whole number of units. If round trips are long, as much as the link carries in two of them. A
// slice has `slice` bytes when it is sent.
uint64_t CreditFor(const v1::LinkMeasurement& links, uint64_t unit, double slice) {
  const double rate = links.bytes_per_second();
  const double round_trip = std::min(2 * rate * links.round_trip_seconds(), kMostRoundTripCredit);
  const double bytes = std::max({std::clamp(rate * kCreditSeconds, kLeastCredit, kMostCredit),
                                 round_trip, kLeastSlices * slice});
  return unit * static_cast<uint64_t>(std::ceil(bytes / static_cast<double>(unit)));
}

// What a job without a choice gets from the checkpoint's job.
v1::SchedulerSpec Inherit(v1::SchedulerSpec own, const v1::SchedulerSpec& before) {
  if (!own.has_slice_bytes() && SliceBytes(own) != SliceBytes(before)) {
    own.set_slice_bytes(SliceBytes(before));
  }
  if (!own.has_partition_bytes() && before.has_partition_bytes()) {
    own.set_partition_bytes(before.partition_bytes());
  }
  if (!own.has_credit_bytes() && before.has_credit_bytes()) {
    own.set_credit_bytes(before.credit_bytes());
  }
  return own;
}

double Least(bool is_first, double so_far, double value) {
  return is_first ? value : std::min(so_far, value);
}

bool IsValid(const v1::LinkMeasurement& links) {
  return std::isfinite(links.bytes_per_second()) && links.bytes_per_second() > 0 &&
         std::isfinite(links.round_trip_seconds()) && links.round_trip_seconds() >= 0 &&
         std::isfinite(links.seconds()) && links.seconds() >= 0;
}

// For people.
std::string LinkText(const v1::LinkReport& report) {
  const v1::LinkMeasurement& slowest = report.slowest();
  std::vector<std::string> chosen;
  const auto add = [&chosen](bool is_chosen, const char* name, uint64_t bytes) {
    if (is_chosen) chosen.push_back(absl::StrCat(name, " ", FormatSize(bytes)));
  };
  add(report.chosen().has_slice_bytes(), "slice", report.chosen().slice_bytes());
  add(report.chosen().has_partition_bytes(), "partition", report.chosen().partition_bytes());
  add(report.chosen().has_credit_bytes(), "credit", report.chosen().credit_bytes());
  return absl::StrFormat("%.3g Gbit/s both ways, round trip %.2g ms, measured in %.2f s%s%s",
                         slowest.bytes_per_second() * 8e-9, 1000 * slowest.round_trip_seconds(),
                         slowest.seconds(), chosen.empty() ? "" : ": ",
                         absl::StrJoin(chosen, ", "));
}

}  // namespace

LinkPlan::LinkPlan(const v1::JobSpec& job, const v1::CheckpointManifest& restored,
                   const OutputPlan& output)
    : output_(output),
      has_topk_(HasTopk(job.codec())),
      sent_share_(SentShare(job.codec())),
      has_auto_codec_(HasAutoCodec(job.codec()) && restored.auto_codecs().text().empty()),
      is_restored_(restored.has_job()),
      scheduler_(is_restored_ ? Inherit(job.scheduler(), restored.job().scheduler())
                              : job.scheduler()) {}

absl::Status LinkPlan::Report(const v1::HeartbeatRequest& heartbeat) {
  const bool is_worker = heartbeat.role() == v1::HeartbeatRequest::WORKER;
  if (is_worker && heartbeat.has_links() && is_measuring_) {
    measured_.try_emplace(heartbeat.id(), heartbeat.links());
  }
  return absl::OkStatus();
}

bool LinkPlan::Settle(const JobFacts& facts, JobEvents& events) {
  if (facts.view.phase() != v1::REGISTERING || !facts.members.is_complete()) return false;
  if (!output_.is_made()) return false;
  if (!has_begun_) {
    Begin(facts);
    return is_measuring_;
  }
  if (!is_measuring_ || measured_.size() < facts.members.workers().size()) return false;
  is_measuring_ = false;
  SumUp();
  events.emplace_back(absl::StrCat("links: ", report_.text()));
  return true;
}

void LinkPlan::Begin(const JobFacts& facts) {
  has_begun_ = true;
  for (const uint64_t elements : facts.tables.elements()) model_bytes_ += elements * sizeof(float);
  const bool is_open =
      MayChooseSlices() || !scheduler_.has_partition_bytes() || !scheduler_.has_credit_bytes();
  chooses_ = is_open && model_bytes_ > kLeastModelBytes &&
             scheduler_.policy() != v1::SchedulerSpec::TENSOR_FIFO;
  is_measuring_ = facts.members.Hosts().size() > 1 && (chooses_ || has_auto_codec_);
}

void LinkPlan::SumUp() {
  v1::LinkMeasurement& slowest = *report_.mutable_slowest();
  for (const auto& [worker, links] : measured_) {
    if (!IsValid(links)) {
      slowest.Clear();
      report_.set_text(links.round_trip_seconds() == 0
                           ? "not measured: too few steps"
                           : absl::StrCat("not measured: worker ", worker, " got no answer"));
      return;
    }
    const bool is_first = slowest.bytes_per_second() == 0;
    slowest.set_bytes_per_second(
        Least(is_first, slowest.bytes_per_second(), links.bytes_per_second()));
    slowest.set_round_trip_seconds(
        std::max(slowest.round_trip_seconds(), links.round_trip_seconds()));
    slowest.set_seconds(std::max(slowest.seconds(), links.seconds()));
    slowest.set_encode_bytes_per_second(
        Least(is_first, slowest.encode_bytes_per_second(), links.encode_bytes_per_second()));
    slowest.set_decode_bytes_per_second(
        Least(is_first, slowest.decode_bytes_per_second(), links.decode_bytes_per_second()));
  }
  if (chooses_) Choose();
  report_.set_text(LinkText(report_));
}

void LinkPlan::WriteToView(v1::JobView& view) const { view.set_measures_links(is_measuring_); }

void LinkPlan::WriteToStatus(v1::GetStatusReply& status) const {
  if (has_measured()) *status.mutable_links() = report_;
}

void LinkPlan::WriteToManifest(v1::CheckpointManifest& manifest) const {
  *manifest.mutable_job()->mutable_scheduler() = scheduler_;
}

void LinkPlan::WriteToState(v1::CoordinatorState& state) const {
  if (has_measured()) *state.mutable_links() = report_;
}

void LinkPlan::Restore(const v1::CoordinatorState& state, const JobFacts& facts) {
  if (!facts.is_placed()) return;
  has_begun_ = true;
  report_ = state.links();
  scheduler_ = state.view().scheduler();
}

// A checkpoint has slices already. With a topk the trained parameters depend on their size.
bool LinkPlan::MayChooseSlices() const {
  return !scheduler_.has_slice_bytes() && !has_topk_ && !is_restored_;
}

void LinkPlan::Choose() {
  v1::SchedulerSpec& chosen = *report_.mutable_chosen();
  const uint64_t unit = UnitFor(report_.slowest().bytes_per_second());
  if (MayChooseSlices()) chosen.set_slice_bytes(SliceFor(unit, sent_share_, model_bytes_));
  const uint64_t slice = chosen.has_slice_bytes() ? chosen.slice_bytes() : SliceBytes(scheduler_);
  if (!scheduler_.has_partition_bytes()) chosen.set_partition_bytes(std::max(unit, slice));
  if (!scheduler_.has_credit_bytes()) {
    const double as_sent = sent_share_ * static_cast<double>(slice);
    chosen.set_credit_bytes(CreditFor(report_.slowest(), unit, as_sent));
  }
  scheduler_.MergeFrom(chosen);
}

}  // namespace capstan
