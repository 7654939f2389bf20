#include "common/base/nearest_name.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace capstan {
namespace {

// Names are short. What somebody pastes need not be.
constexpr size_t kMostBytes = 64;

// The smallest number of characters to insert, remove or replace, and of neighbours to swap, that
// makes `a` into `b`.
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<std::vector<size_t>> of(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        of[i][j] = i + j;
        continue;
      }
      of[i][j] = std::min(
          {of[i - 1][j] + 1, of[i][j - 1] + 1, of[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        of[i][j] = std::min(of[i][j], of[i - 2][j - 2] + 1);
      }
    }
  }
  return of[a.size()][b.size()];
}

// Whether the word has the first letters of the name's parts: "lr" of "learning_rate".
bool AreInitials(absl::string_view word, absl::string_view name) {
  std::string initials;
  for (const absl::string_view part : absl::StrSplit(name, '_', absl::SkipEmpty())) {
    initials += part.front();
  }
  return initials.size() >= 2 && word == initials;
}

// Whether the word is the end of a path with dots, such as "max_rows" of "model.rows.max_rows", or
// an end with "_" for a dot.
bool IsEnd(absl::string_view word, absl::string_view path) {
  if (word.size() < 4 || word.size() >= path.size()) return false;
  const char before = path[path.size() - word.size() - 1];
  const absl::string_view end = path.substr(path.size() - word.size());
  const bool begins_there =
      before == '.' || before == '=' || (before == '_' && absl::StrContains(end, '.'));
  return begins_there && absl::StrReplaceAll(end, {{".", "_"}}) == word;
}

}  // namespace

std::string DidYouMean(absl::string_view word, const std::vector<std::string>& names,
                       absl::string_view prefix) {
  if (word.empty() || word.size() > kMostBytes) return "";
  const std::string* nearest = nullptr;
  // A third of the characters may be wrong.
  size_t least = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& name : names) {
    if (AreInitials(word, name)) {
      nearest = &name;
      break;
    }
    // "worker" for "workers_per_node" is nearer than the number of missing characters, and
    // "max_rows" for "model.rows.max_rows" nearest.
    const bool is_beginning = word.size() >= 4 && absl::StartsWith(name, word);
    const size_t distance = IsEnd(word, name) ? 0 : is_beginning ? 1 : Distance(word, name);
    if (distance >= least) continue;
    least = distance;
    nearest = &name;
  }
  return nearest == nullptr ? "" : absl::StrCat(" (did you mean ", prefix, *nearest, "?)");
}

}  // namespace capstan
