#include "common/history/history.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

std::string Seconds(int64_t time_ns, int64_t origin_ns) {
  return absl::StrFormat("%.6f", static_cast<double>(time_ns - origin_ns) * 1e-9);
}

// The bounds are far above any real step or duration, and any time before the year 2100. A time and
// several durations add up to less than 2^63.
bool IsCount(int64_t number) { return number >= 0 && number <= int64_t{1} << 60; }
bool IsTime(int64_t time_ns) { return time_ns >= 0 && time_ns <= int64_t{1} << 62; }

// False when the record has an impossible time or step.
bool HasPossibleNumbers(const v1::HistoryRecord& record) {
  switch (record.record_case()) {
    case v1::HistoryRecord::kHeader:
      return IsCount(record.header().clock_skew_ns()) && IsCount(record.header().settle_ns()) &&
             IsCount(record.header().restored_step());
    case v1::HistoryRecord::kContract:
      return IsCount(record.contract().from_step()) &&
             (record.contract().staleness() < 0 || IsCount(record.contract().staleness()));
    case v1::HistoryRecord::kMembership:
      return IsTime(record.membership().time_ns()) && IsCount(record.membership().first_step());
    case v1::HistoryRecord::kBegan:
      return IsTime(record.began().time_ns()) &&
             (!record.began().has_push() || IsCount(record.began().push_step())) &&
             (!record.began().has_pull() || IsCount(record.began().pull_step()));
    case v1::HistoryRecord::kEnded:
      return IsTime(record.ended().time_ns()) && IsCount(record.ended().min_step());
    case v1::HistoryRecord::kEnd:
      return IsTime(record.end().time_ns());
    case v1::HistoryRecord::kRestored:
      return std::all_of(record.restored().updates().begin(), record.restored().updates().end(),
                         [](const auto& update) { return IsCount(update.step()); });
    case v1::HistoryRecord::RECORD_NOT_SET:
      break;
  }
  return true;
}

}  // namespace

std::string Describe(const RecordedExchange& exchange, int64_t origin_ns) {
  std::string text;
  if (exchange.is_initial) text = "initial values";
  if (exchange.push_step.has_value()) {
    absl::StrAppend(&text, exchange.is_empty_push ? "empty push" : "push", " of step ",
                    exchange.push_step->value());
  }
  if (exchange.rates.learning_rate.has_value()) {
    absl::StrAppend(&text, " with learning rate ", *exchange.rates.learning_rate);
  }
  if (exchange.rates.momentum.has_value()) {
    absl::StrAppend(&text, " with momentum ", *exchange.rates.momentum);
  }
  if (exchange.pull_step.has_value()) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", "pull of step ", exchange.pull_step->value());
  }
  absl::StrAppend(&text, " by worker ", exchange.worker.value(), " (incarnation ",
                  exchange.incarnation.value(), "), slice ", exchange.slice.slice.value(),
                  " of table ", exchange.slice.table.value(), ", ",
                  Seconds(exchange.begin_ns, origin_ns), " s to ");
  if (!exchange.is_answered()) return absl::StrCat(text, "the end: not answered");
  absl::StrAppend(&text, Seconds(exchange.end_ns, origin_ns), " s: ");
  if (!exchange.is_ok()) return absl::StrCat(text, absl::StatusCodeToString(exchange.code));
  absl::StrAppend(&text, "version ", exchange.version, ", min_step ", exchange.min_step.value());
  if (exchange.learning_rate_divisor == 0) return text;
  return absl::StrCat(text, ", learning rate divided by ", exchange.learning_rate_divisor);
}

absl::Status HistoryAssembler::AddFile(const std::vector<v1::HistoryRecord>& records) {
  lives_in_file_.clear();
  last_sign_of_life_ns_ = 0;
  has_file_ended_ = false;
  if (records.empty() || records.front().record_case() != v1::HistoryRecord::kHeader) {
    return absl::InvalidArgumentError(
        "expected a history file to start with a header, but this one does not");
  }
  for (const v1::HistoryRecord& record : records) RETURN_IF_ERROR(Add(record));
  if (has_file_ended_) return absl::OkStatus();
  for (const auto& [worker, incarnation] : lives_in_file_) {
    v1::MembershipRecord& death = history_.membership.emplace_back();
    death.set_event(v1::MembershipRecord::DIED);
    death.set_worker(worker.value());
    death.set_incarnation(incarnation.value());
    death.set_time_ns(last_sign_of_life_ns_);
  }
  return absl::OkStatus();
}

absl::Status HistoryAssembler::Add(const v1::HistoryRecord& record) {
  if (!HasPossibleNumbers(record)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a history has an impossible time or step: the file is damaged: ",
                     record.ShortDebugString()));
  }
  switch (record.record_case()) {
    case v1::HistoryRecord::kHeader:
      return AddHeader(record.header());
    case v1::HistoryRecord::kContract:
      history_.contracts.push_back(record.contract());
      return absl::OkStatus();
    case v1::HistoryRecord::kMembership:
      NoteTime(record.membership().time_ns());
      lives_in_file_.emplace(WorkerId(record.membership().worker()),
                             Incarnation(record.membership().incarnation()));
      history_.membership.push_back(record.membership());
      return absl::OkStatus();
    case v1::HistoryRecord::kBegan:
      return AddBegan(record.began());
    case v1::HistoryRecord::kEnded:
      return AddEnded(record.ended());
    case v1::HistoryRecord::kEnd:
      NoteTime(record.end().time_ns());
      has_file_ended_ = true;
      return absl::OkStatus();
    case v1::HistoryRecord::kRestored:
      history_
          .restored[{TableId(record.restored().table()), SliceIndex(record.restored().slice())}] =
          record.restored();
      return absl::OkStatus();
    case v1::HistoryRecord::RECORD_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "a history has a record of an unknown kind: a newer version of this program wrote it");
}

absl::Status HistoryAssembler::AddHeader(const v1::HistoryHeader& header) {
  if (header.format_version() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("history format: expected version 1, got ",
                                                   header.format_version(),
                                                   "; use the program that recorded it"));
  }
  if (has_header_ && header.job() != history_.header.job()) {
    return absl::InvalidArgumentError(absl::StrCat("histories of two jobs, ", history_.header.job(),
                                                   " and ", header.job(),
                                                   "; give each job a folder of its own"));
  }
  has_header_ = true;
  history_.header = header;
  return absl::OkStatus();
}

absl::Status HistoryAssembler::AddBegan(const v1::ExchangeBegan& began) {
  NoteTime(began.time_ns());
  RecordedExchange exchange;
  exchange.worker = WorkerId(began.worker());
  exchange.incarnation = Incarnation(began.incarnation());
  exchange.slice = {TableId(began.table()), SliceIndex(began.slice())};
  if (began.has_push()) exchange.push_step = Step(began.push_step());
  if (began.has_pull()) exchange.pull_step = Step(began.pull_step());
  if (began.has_base_version()) exchange.base_version = began.base_version();
  if (began.has_learning_rate()) exchange.rates.learning_rate = began.learning_rate();
  if (began.has_momentum()) exchange.rates.momentum = began.momentum();
  exchange.is_empty_push = began.is_empty_push();
  exchange.is_initial = began.is_initial();
  exchange.begin_ns = began.time_ns();
  lives_in_file_.emplace(exchange.worker, exchange.incarnation);
  history_.begin_ns = std::min(history_.begin_ns, exchange.begin_ns);
  const bool is_new =
      exchanges_.emplace(ExchangeKey(exchange.incarnation, began.id()), history_.exchanges.size())
          .second;
  if (!is_new) {
    return absl::InvalidArgumentError(absl::StrCat("two exchanges ", began.id(), " of incarnation ",
                                                   began.incarnation(),
                                                   ": is one file there twice?"));
  }
  history_.exchanges.push_back(std::move(exchange));
  return absl::OkStatus();
}

absl::Status HistoryAssembler::AddEnded(const v1::ExchangeEnded& ended) {
  NoteTime(ended.time_ns());
  const auto it = exchanges_.find({Incarnation(ended.incarnation()), ended.id()});
  if (it == exchanges_.end()) {
    return absl::InvalidArgumentError(absl::StrCat("the answer of exchange ", ended.id(),
                                                   " of incarnation ", ended.incarnation(),
                                                   " without its beginning: the file is damaged"));
  }
  RecordedExchange& exchange = history_.exchanges[it->second];
  if (exchange.is_answered()) {
    return absl::InvalidArgumentError(
        absl::StrCat("answered twice: ", Describe(exchange, history_.begin_ns)));
  }
  exchange.end_ns = ended.time_ns();
  exchange.code = static_cast<absl::StatusCode>(ended.code());
  if (exchange.is_ok()) {
    last_sign_of_life_ns_ = std::max(last_sign_of_life_ns_, exchange.begin_ns);
  }
  exchange.version = ended.version();
  exchange.min_step = Step(ended.min_step());
  exchange.learning_rate_divisor = ended.learning_rate_divisor();
  exchange.values.assign(ended.values().begin(), ended.values().end());
  exchange.has_inexact_values = ended.has_inexact_values();
  return AddChanges(ended, exchange);
}

absl::Status HistoryAssembler::AddChanges(const v1::ExchangeEnded& ended,
                                          RecordedExchange& exchange) {
  if (!ended.has_changes()) return absl::OkStatus();
  const v1::HistoryHeader& header = history_.header;
  // A division, because the product may overflow.
  const bool is_possible =
      header.num_workers() > 0 && header.steps() > 0 &&
      static_cast<uint64_t>(header.steps()) <= kMaxTestElements / header.num_workers();
  const uint64_t elements =
      is_possible ? header.num_workers() * static_cast<uint64_t>(header.steps()) : 0;
  const bool fits = ended.changed_elements_size() == ended.changed_values_size() &&
                    std::all_of(ended.changed_elements().begin(), ended.changed_elements().end(),
                                [&](uint32_t element) { return element < elements; });
  if (!is_possible || !fits) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected changes of ", elements, " elements, of each worker and step; got others in ",
        Describe(exchange, history_.begin_ns), ": the file is damaged"));
  }
  exchange.changes_number = ++num_changes_;
  exchange.changes.emplace();
  for (int i = 0; i < ended.changed_elements_size(); ++i) {
    exchange.changes->emplace_back(ended.changed_elements(i), ended.changed_values(i));
  }
  return absl::OkStatus();
}

void HistoryAssembler::NoteTime(int64_t time_ns) {
  history_.end_ns = std::max(history_.end_ns, time_ns);
}

absl::StatusOr<History> HistoryAssembler::Finish() {
  if (!has_header_) return absl::InvalidArgumentError("there is no history: no file was read");
  std::stable_sort(history_.membership.begin(), history_.membership.end(),
                   [](const v1::MembershipRecord& a, const v1::MembershipRecord& b) {
                     return a.time_ns() < b.time_ns();
                   });
  std::stable_sort(
      history_.exchanges.begin(), history_.exchanges.end(),
      [](const RecordedExchange& a, const RecordedExchange& b) { return a.begin_ns < b.begin_ns; });
  exchanges_.clear();
  return std::move(history_);
}

}  // namespace capstan
