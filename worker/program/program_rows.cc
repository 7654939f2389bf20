#include "worker/program/program_rows.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace capstan {

ProgramRows::ProgramRows(Clock* clock, const std::vector<v1::TableSpec>* tables,
                         ProgramSteps* steps, size_t first_part, Await before_push)
    : clock_(clock),
      tables_(tables),
      steps_(steps),
      first_part_(first_part),
      before_push_(std::move(before_push)) {}

absl::Status ProgramRows::CheckSparse(TableId table) const {
  if (table.value() < tables_->size() && IsSparse(table)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("table: expected a sparse one, got ", table.value()));
}

absl::StatusOr<size_t> ProgramRows::DimOf(TableId table) const {
  RETURN_IF_ERROR(CheckSparse(table));
  return (*tables_)[table.value()].sparse().dim();
}

absl::Status ProgramRows::Use(TableId table, absl::Time deadline,
                              absl::FunctionRef<absl::Status(RowStore& rows)> use) {
  RETURN_IF_ERROR(CheckSparse(table));
  ASSIGN_OR_RETURN(const ProgramSteps::StoreLease store, steps_->LeaseStore());
  if (store == nullptr) return steps_->WithoutStore(deadline);
  RowStore& rows = *store->rows();
  RETURN_IF_ERROR(steps_->WaitIn(*store, deadline, "rows are on their way",
                                 [&](absl::Duration limit) { return rows.WaitFor(table, limit); }));
  // An exception may have left exchanges that nobody sends any more.
  absl::Cleanup fail = [&] {
    if (!rows.WaitFor(table, absl::ZeroDuration()).value_or(true)) steps_->FailHalfSent();
  };
  absl::Status status = use(rows);
  std::move(fail).Cancel();
  return status;
}

absl::Status ProgramRows::Pull(TableId table, absl::Span<const uint64_t> keys,
                               absl::Duration limit) {
  const absl::Time deadline = clock_->Now() + limit;
  const auto pull = [&](RowStore& rows) {
    // After the step's push, the values of this step may be gone.
    return rows.Pull(table, keys, steps_->StepAfter(PartOf(table)));
  };
  return steps_->Explain(Use(table, deadline, pull), deadline);
}

absl::Status ProgramRows::Read(TableId table, absl::Span<float> rows, absl::Duration limit) {
  const absl::Time deadline = clock_->Now() + limit;
  const auto read = [&](RowStore& store) {
    const size_t expected = store.pulled_keys(table) * store.dim(table);
    if (rows.size() != expected) {
      return absl::InvalidArgumentError(absl::StrCat(
          "count: expected ", expected, " values of the rows that were pulled, got ", rows.size()));
    }
    store.ReadRows(table, rows);
    return absl::OkStatus();
  };
  return steps_->Explain(Use(table, deadline, read), deadline);
}

absl::Status ProgramRows::Push(TableId table, absl::Span<const uint64_t> keys,
                               absl::Span<const float> gradients,
                               absl::Span<const uint64_t> next_keys, absl::Duration limit) {
  const absl::Time deadline = clock_->Now() + limit;
  return steps_->Explain(PushUntil(table, keys, gradients, next_keys, deadline), deadline);
}

absl::Status ProgramRows::PushNothing(absl::Time deadline) {
  for (uint32_t i = 0; i < tables_->size(); ++i) {
    const TableId table(i);
    if (!IsSparse(table) || steps_->IsPushed(PartOf(table))) continue;
    RETURN_IF_ERROR(PushUntil(table, {}, {}, {}, deadline));
  }
  return absl::OkStatus();
}

absl::Status ProgramRows::AwaitAnswers(absl::Time deadline) {
  for (uint32_t i = 0; i < tables_->size(); ++i) {
    if (!IsSparse(TableId(i))) continue;
    RETURN_IF_ERROR(Use(TableId(i), deadline, [](RowStore&) { return absl::OkStatus(); }));
  }
  return absl::OkStatus();
}

absl::Status ProgramRows::PushUntil(TableId table, absl::Span<const uint64_t> keys,
                                    absl::Span<const float> gradients,
                                    absl::Span<const uint64_t> next_keys, absl::Time deadline) {
  RETURN_IF_ERROR(CheckSparse(table));
  RETURN_IF_ERROR(before_push_(deadline));
  const std::string name = absl::StrCat("table ", (*tables_)[table.value()].name());
  bool is_pushed = false;
  while (!is_pushed) {
    RETURN_IF_ERROR(Use(table, deadline, [](RowStore&) { return absl::OkStatus(); }));
    RETURN_IF_ERROR(steps_->AwaitOpenStep(deadline).status());
    RETURN_IF_ERROR(Use(table, deadline, [&](RowStore& rows) -> absl::Status {
      ASSIGN_OR_RETURN(const std::optional<ProgramSteps::TakenPush> push,
                       steps_->TakePush(PartOf(table), name));
      is_pushed = push.has_value();
      if (!is_pushed) return absl::OkStatus();
      auto not_sent = absl::MakeCleanup([this, table] { steps_->ReturnPush(PartOf(table)); });
      RETURN_IF_ERROR(rows.Push(table, keys, gradients, push->step, next_keys));
      std::move(not_sent).Cancel();
      return absl::OkStatus();
    }));
  }
  return absl::OkStatus();
}

}  // namespace capstan
