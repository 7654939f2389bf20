#include "server/service/copy_reports.h"

#include <algorithm>
#include <limits>

#include "common/base/printable_text.h"

namespace capstan {
namespace {

constexpr absl::Duration kSilence = absl::Seconds(2);

}  // namespace

void CopyReports::Write(const ShardHost& host, absl::Time now, v1::CopyReport* report) {
  uint64_t equal_at = std::numeric_limits<uint64_t>::max();
  for (const auto& [shard, copy] : host.copies()) {
    if (copy.is_whole) {
      v1::WholeCopy& whole = *report->add_whole();
      whole.set_shard(shard.value());
      whole.set_number(copy.number);
    }
    if (!copy.fault.empty()) {
      v1::CopyFault& fault = *report->add_faults();
      fault.set_shard(shard.value());
      fault.set_number(copy.number);
      fault.set_text(CutText(copy.fault));
    }
    Acknowledged& latest = acknowledged_[shard];
    const bool waits = copy.records_unanswered > 0 && copy.number == latest.number &&
                       copy.acknowledged == latest.sequence;
    if (!waits) latest = {copy.number, copy.acknowledged, now};
    if (now - latest.since >= kSilence) {
      v1::SilentCopy& silent = *report->add_silent();
      silent.set_shard(shard.value());
      silent.set_number(copy.number);
      silent.set_seconds(absl::ToDoubleSeconds(now - latest.since));
    }
    report->set_bytes_to_copy(report->bytes_to_copy() + copy.bytes_to_copy);
    report->set_bytes_copied(report->bytes_copied() + copy.bytes_copied);
    report->set_records(report->records() + copy.records);
    report->set_record_bytes(report->record_bytes() + copy.record_bytes);
    report->set_records_unanswered(report->records_unanswered() + copy.records_unanswered);
    report->set_held_replies(report->held_replies() + copy.held_replies);
    if (copy.has_slices) equal_at = std::min(equal_at, copy.equal_at_version);
  }
  if (equal_at != std::numeric_limits<uint64_t>::max()) report->set_equal_at_version(equal_at);
}

}  // namespace capstan
