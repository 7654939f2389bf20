#include "common/routing/copies_text.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace capstan {
namespace {

// "0.31 of 1.20 GB", in powers of 1000.
std::string PartText(uint64_t part, uint64_t whole) {
  constexpr const char* kUnits[] = {"kB", "MB", "GB"};
  double size = 1000;
  size_t unit = 0;
  while (static_cast<double>(whole) >= 1000 * size && unit + 1 < std::size(kUnits)) {
    size *= 1000;
    ++unit;
  }
  return absl::StrFormat("%.2f of %.2f %s", static_cast<double>(part) / size,
                         static_cast<double>(whole) / size, kUnits[unit]);
}

// "server 1 has acknowledged no change of 12 shards of server 0 for 5 s, and replies may wait".
// Empty: all acknowledge.
std::string SilenceText(const v1::GetStatusReply& status) {
  struct Silence {
    double seconds = 0;
    int shards = 0;
  };
  std::map<std::pair<uint32_t, uint32_t>, Silence> silent;  // by copy's and primary's server
  for (const v1::SilentCopy& copy : status.copies().silent()) {
    const v1::JobView& view = status.view();
    const int64_t shards = std::min(view.copies_size(), view.server_of_shard_size());
    if (copy.shard() >= shards) continue;
    const auto shard = static_cast<int>(copy.shard());
    if (view.copies(shard).number() != copy.number()) continue;
    Silence& one = silent[{view.copies(shard).server(), view.server_of_shard(shard)}];
    one.seconds = std::max(one.seconds, copy.seconds());
    ++one.shards;
  }
  std::vector<std::string> texts;
  for (const auto& [servers, one] : silent) {
    texts.push_back(absl::StrFormat(
        "server %d has acknowledged no change of %d shard%s of server %d for %.0f s, and replies "
        "may wait",
        servers.first, one.shards, one.shards == 1 ? "" : "s", servers.second, one.seconds));
  }
  return absl::StrJoin(texts, "; ");
}

}  // namespace

std::string CopiesText(const v1::GetStatusReply& status) {
  const int shards = status.view().copies_size();
  if (shards == 0) return "";
  const v1::CopyReport& copies = status.copies();
  std::string text = absl::StrCat(copies.whole_size(), " of ", shards, " whole");
  if (copies.whole_size() == shards && copies.equal_at_version() > 0) {
    absl::StrAppend(&text, ", equal at version ", copies.equal_at_version());
  }
  const bool are_made = absl::c_any_of(status.view().copies(), [](const v1::ShardCopy& copy) {
    return !copy.is_whole() && copy.fault().empty();
  });
  const bool do_wait = copies.whole_size() + copies.faults_size() < shards;
  if (are_made && copies.bytes_to_copy() > 0) {
    absl::StrAppend(&text, ", ", PartText(copies.bytes_copied(), copies.bytes_to_copy()),
                    " copied");
  } else if (!are_made && do_wait) {
    absl::StrAppend(&text, "; the others wait for another server");
  }
  for (const std::string& trouble : {GivenUpText(copies), SilenceText(status)}) {
    if (!trouble.empty()) absl::StrAppend(&text, "; ", trouble);
  }
  return text;
}

std::string GivenUpText(const v1::CopyReport& copies) {
  constexpr int kMostNamed = 8;
  const int count = copies.faults_size();
  if (count == 0) return "";
  if (count == 1) {
    return absl::StrCat("the copy of shard ", copies.faults(0).shard(), " was given up");
  }
  if (count > kMostNamed) {
    return absl::StrCat("the copies of ", count, " shards were given up");
  }
  std::vector<uint32_t> shards;
  for (const v1::CopyFault& fault : copies.faults()) shards.push_back(fault.shard());
  return absl::StrCat("the copies of shards ", absl::StrJoin(shards, ", "), " were given up");
}

}  // namespace capstan
