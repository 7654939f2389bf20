#include "deploy/cli/text/number_text.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace capstan {

std::string OrdinalText(uint64_t number) {
  const bool is_teen = number % 100 / 10 == 1;
  const char* const endings[] = {"th", "st", "nd", "rd"};
  const uint64_t last = is_teen || number % 10 > 3 ? 0 : number % 10;
  return absl::StrCat(number, endings[last]);
}

std::string CountText(uint64_t count) {
  std::string text = absl::StrCat(count);
  for (int i = static_cast<int>(text.size()) - 3; i > 0; i -= 3) text.insert(i, ",");
  return text;
}

std::string RoundedCountText(double count) {
  if (!(count >= 0 && count < 0x1p63)) return "?";
  return CountText(static_cast<uint64_t>(count));
}

std::string BytesText(double bytes) {
  if (bytes < 1e3) return absl::StrFormat("%.0f B", bytes);
  if (bytes < 1e6) return absl::StrFormat("%.1f kB", bytes / 1e3);
  if (bytes < 1e9) return absl::StrFormat("%.1f MB", bytes / 1e6);
  return absl::StrFormat("%.1f GB", bytes / 1e9);
}

std::string RatioText(double ratio) {
  if (!std::isfinite(ratio) || ratio <= 0) return "?";
  if (ratio >= 1.05) return absl::StrFormat("%.1fx smaller", ratio);
  return ratio > 1 / 1.05 ? "no smaller" : absl::StrFormat("%.1fx larger", 1 / ratio);
}

std::string StepText(int64_t step, int64_t total) {
  return absl::StrCat("step ", step, total > 0 ? absl::StrCat(" of ", total) : "");
}

std::string TimeText(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e9) return "?";
  const int64_t whole = static_cast<int64_t>(seconds);
  if (whole < 3600) return absl::StrFormat("%d:%02d", whole / 60, whole % 60);
  return absl::StrFormat("%d:%02d:%02d", whole / 3600, whole / 60 % 60, whole % 60);
}

}  // namespace capstan
