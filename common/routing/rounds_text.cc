#include "common/routing/rounds_text.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace capstan {

std::string RoundsText(const v1::GetStatusReply& status) {
  if (!status.view().has_local_steps()) return "";
  const v1::LocalSteps& rounds = status.view().local_steps();
  std::string text = rounds.sync_every() > 0
                         ? absl::StrCat(rounds.sync_every(), " local steps each")
                         : absl::StrCat(rounds.round_seconds(), " s of local steps each");
  if (rounds.fragments() > 1) absl::StrAppend(&text, ", in ", rounds.fragments(), " fragments");
  uint64_t local_steps = 0;
  double drifts = 0;
  int num_drifts = 0;
  for (const v1::Progress& progress : status.replaced_workers()) {
    local_steps += progress.local_steps();
  }
  for (int worker = 0; worker < status.progress_size(); ++worker) {
    const v1::Progress& progress = status.progress(worker);
    local_steps += progress.local_steps();
    const bool is_live =
        worker < status.view().workers_size() && status.view().workers(worker).is_live();
    if (!is_live || !(progress.drift() > 0)) continue;
    drifts += progress.drift();
    ++num_drifts;
  }
  absl::StrAppend(&text, "; ", local_steps, " so far");
  if (num_drifts > 0) absl::StrAppendFormat(&text, ", drift %.2g", drifts / num_drifts);
  return text;
}

}  // namespace capstan
