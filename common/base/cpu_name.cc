#include "common/base/cpu_name.h"

#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/base/printable_text.h"

namespace capstan {
namespace {

// The value of the first line "NAME : VALUE"; empty: there is none.
std::string ValueOf(absl::string_view name, absl::string_view cpuinfo) {
  for (const absl::string_view line : absl::StrSplit(cpuinfo, '\n')) {
    const std::pair<absl::string_view, absl::string_view> field =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (absl::StripAsciiWhitespace(field.first) != name) continue;
    return ShortPrintableText(absl::StripAsciiWhitespace(field.second));
  }
  return "";
}

// For kernels that tell no name, as on ARM.
std::string NameByNumbers(absl::string_view cpuinfo) {
  const std::string implementer = ValueOf("CPU implementer", cpuinfo);
  const std::string part = ValueOf("CPU part", cpuinfo);
  if (implementer.empty() || part.empty()) return "unknown CPU";
  return absl::StrCat("CPU of implementer ", implementer, ", part ", part);
}

}  // namespace

std::string CpuNameIn(absl::string_view cpuinfo) {
  std::string name = absl::StrReplaceAll(
      ValueOf("model name", cpuinfo),
      {{"(R)", ""}, {"(TM)", ""}, {"(r)", ""}, {"(tm)", ""}, {" CPU", ""}, {" Processor", ""}});
  absl::RemoveExtraAsciiWhitespace(&name);
  if (name.empty()) return NameByNumbers(cpuinfo);
  const std::string family = ValueOf("cpu family", cpuinfo);
  const std::string model = ValueOf("model", cpuinfo);
  if (!family.empty()) absl::StrAppend(&name, ", family ", family, " model ", model);
  return name;
}

std::string CpuName() {
  std::ifstream file("/proc/cpuinfo");
  const std::string cpuinfo((std::istreambuf_iterator<char>(file)),
                            std::istreambuf_iterator<char>());
  return CpuNameIn(cpuinfo);
}

}  // namespace capstan
