#include "server/coordinator/state/saved_states.h"

#include <google/protobuf/message_lite.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "server/coordinator/state/state_file.h"

namespace capstan {
namespace {

constexpr absl::string_view kTermPrefix = "term-";
constexpr absl::string_view kStatePrefix = "state-";

// A larger number is nobody's.
constexpr uint64_t kMostNumber = 999'999'999'999;

std::string StateName(uint64_t number) { return absl::StrFormat("%s%010d", kStatePrefix, number); }

// The numbers in the names that are as `name_of` writes them, the largest first.
std::vector<uint64_t> NumbersIn(const std::vector<std::string>& names, absl::string_view prefix,
                                std::string (*name_of)(uint64_t)) {
  std::vector<uint64_t> numbers;
  for (const std::string& name : names) {
    absl::string_view digits = name;
    uint64_t number = 0;
    if (absl::ConsumePrefix(&digits, prefix) && absl::SimpleAtoi(digits, &number) &&
        number <= kMostNumber && name == name_of(number)) {
      numbers.push_back(number);
    }
  }
  std::sort(numbers.begin(), numbers.end(), std::greater<>());
  return numbers;
}

struct StateId {
  uint64_t term = 0;
  uint64_t number = 0;

  std::string path() const { return StatePath(term, number); }
};

class StateReader {
 public:
  StateReader(StateFolder& folder, const std::string& dir) : folder_(folder), dir_(dir) {}

  // All states, the newest first.
  absl::StatusOr<std::vector<StateId>> List() const {
    ASSIGN_OR_RETURN(const std::vector<uint64_t> terms, ListTerms(folder_));
    std::vector<StateId> states;
    for (const uint64_t term : terms) {
      const absl::StatusOr<std::vector<std::string>> names = folder_.List(TermFolder(term));
      if (absl::IsNotFound(names.status())) continue;  // A later term has removed it meanwhile.
      RETURN_IF_ERROR(names.status());
      for (const uint64_t number : NumbersIn(*names, kStatePrefix, &StateName)) {
        states.push_back({term, number});
      }
    }
    return states;
  }

  // NOT_FOUND: one of its files is missing.
  absl::StatusOr<SavedJob> Read(const StateId& id) const {
    SavedJob job;
    RETURN_IF_ERROR(ReadMessage(id.path(), job.state).status());
    if (job.state.term() != id.term) {
      return absl::DataLossError(absl::StrCat(
          PathOf(id.path()), ": expected a state of term ", id.term, ", as its folder, got one of ",
          job.state.term(), "; it belongs into another folder"));
    }
    const std::string path = ConstantsPath(id.term, job.state.constants_xxh3());
    auto constants = std::make_shared<v1::JobConstants>();
    const absl::StatusOr<uint64_t> hash = ReadMessage(path, *constants);
    if (absl::IsNotFound(hash.status())) {
      return absl::NotFoundError(absl::StrCat(PathOf(path), ": expected the constants that ",
                                              id.path(), " names, got no such file"));
    }
    RETURN_IF_ERROR(hash.status());
    if (*hash != job.state.constants_xxh3()) {
      return absl::DataLossError(absl::StrFormat(
          "%s: expected the XXH3-64 of its name, got %016x; it is another file, or damaged",
          PathOf(path), *hash));
    }
    job.constants = std::move(constants);
    return job;
  }

  // The error of a damaged or incomplete state, the newest one, with what to do.
  absl::Status WithAdvice(const absl::Status& error, const std::vector<StateId>& states) const {
    std::vector<std::string> damaged;
    for (const StateId& state : states) {
      if (Read(state).ok()) {
        return absl::DataLossError(absl::StrCat(
            error.message(), ". The older state ", PathOf(state.path()),
            " is intact: to go on from it, at the risk of deciding twice what was decided since, "
            "remove ",
            absl::StrJoin(damaged, " and ")));
      }
      damaged.push_back(PathOf(state.path()));
    }
    return absl::DataLossError(
        absl::StrCat(error.message(),
                     ". No older state is intact: put back a copy, or begin the job anew, with "
                     "another folder for the coordinator's state"));
  }

 private:
  std::string PathOf(const std::string& path) const { return absl::StrCat(dir_, "/", path); }

  // Returns the XXH3-64 of the message.
  absl::StatusOr<uint64_t> ReadMessage(const std::string& path,
                                       google::protobuf::MessageLite& message) const {
    ASSIGN_OR_RETURN(const std::string bytes, folder_.Read(path));
    const absl::StatusOr<StateFile> file = DecodeStateFile(bytes);
    if (!file.ok()) return Annotate(file.status(), PathOf(path));
    if (message.ParseFromArray(file->payload.data(), static_cast<int>(file->payload.size()))) {
      return file->xxh3;
    }
    return absl::DataLossError(absl::StrCat(PathOf(path), ": expected a ", message.GetTypeName(),
                                            ", got something else; it is another file"));
  }

  StateFolder& folder_;
  const std::string& dir_;
};

}  // namespace

std::string TermFolder(uint64_t term) { return absl::StrFormat("%s%06d", kTermPrefix, term); }

std::string StatePath(uint64_t term, uint64_t number) {
  return absl::StrCat(TermFolder(term), "/", StateName(number));
}

std::string ConstantsPath(uint64_t term, uint64_t xxh3) {
  return absl::StrFormat("%s/constants-%016x", TermFolder(term), xxh3);
}

absl::StatusOr<std::vector<uint64_t>> ListTerms(StateFolder& folder) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, folder.List(""));
  return NumbersIn(names, kTermPrefix, &TermFolder);
}

absl::StatusOr<std::optional<SavedJob>> ReadNewestState(StateFolder& folder,
                                                        const std::string& dir) {
  const StateReader reader(folder, dir);
  std::string incomplete;
  while (true) {
    ASSIGN_OR_RETURN(const std::vector<StateId> states, reader.List());
    if (states.empty()) return std::nullopt;
    absl::StatusOr<SavedJob> job = reader.Read(states.front());
    if (job.ok()) return *std::move(job);
    const std::string path = states.front().path();
    const bool is_missing = absl::IsNotFound(job.status());
    if (!is_missing && !absl::IsDataLoss(job.status())) return job.status();
    if (!is_missing || path == incomplete) return reader.WithAdvice(job.status(), states);
    // A coordinator that still runs may have removed it, after it has written newer ones.
    incomplete = path;
  }
}

}  // namespace capstan
