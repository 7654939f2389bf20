#include "common/job/consistency_text.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace capstan {

std::string ConsistencyText(const v1::ConsistencySpec& consistency) {
  std::string text = absl::AsciiStrToLower(v1::ConsistencySpec::Mode_Name(consistency.mode()));
  if (consistency.mode() != v1::ConsistencySpec::SSP) return text;
  absl::StrAppend(&text, ", staleness ", consistency.staleness());
  if (consistency.table_staleness().empty()) return text;
  const auto append = [](std::string* out, const v1::TableStaleness& own) {
    absl::StrAppend(out, own.table(), " ", own.staleness());
  };
  return absl::StrCat(text, " (", absl::StrJoin(consistency.table_staleness(), ", ", append), ")");
}

}  // namespace capstan
