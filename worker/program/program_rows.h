#ifndef WORKER_PROGRAM_PROGRAM_ROWS_H_
#define WORKER_PROGRAM_PROGRAM_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/base/ids.h"
#include "proto/coordinator_service.pb.h"
#include "worker/client/row_store.h"
#include "worker/program/program_steps.h"

namespace capstan {

// The rows of sparse tables in a program's steps. Its calls return what those of ProgramSteps do,
// and INVALID_ARGUMENT if the table is dense, or if there are too many keys. Thread-safe.
class ProgramRows {
 public:
  // What a push waits for, by a deadline.
  using Await = std::function<absl::Status(absl::Time)>;

  // The pointers outlive this object. The push of a table's rows is part `first_part` + its id of a
  // step.
  ProgramRows(Clock* clock, const std::vector<v1::TableSpec>* tables, ProgramSteps* steps,
              size_t first_part, Await before_push);

  // Number of values in a row.
  absl::StatusOr<size_t> DimOf(TableId table) const;
  // Begins to pull the rows of `keys` once the table's last exchange is answered: at the step that
  // is under way, or after the table's push of that step at the next one.
  absl::Status Pull(TableId table, absl::Span<const uint64_t> keys, absl::Duration limit);
  // Waits for the rows of the last Pull, and sets them, in the order of its keys.
  absl::Status Read(TableId table, absl::Span<float> rows, absl::Duration limit);
  // Pushes gradients of these keys, once a step. Fetches the rows of `next_keys` ahead, for the
  // next step.
  absl::Status Push(TableId table, absl::Span<const uint64_t> keys,
                    absl::Span<const float> gradients, absl::Span<const uint64_t> next_keys,
                    absl::Duration limit);
  // In each sparse table that was not pushed in the open step, the step is done without a gradient.
  absl::Status PushNothing(absl::Time deadline);
  // Waits until no exchange of any table is open.
  absl::Status AwaitAnswers(absl::Time deadline);

 private:
  bool IsSparse(TableId table) const { return (*tables_)[table.value()].has_sparse(); }
  absl::Status CheckSparse(TableId table) const;
  size_t PartOf(TableId table) const { return first_part_ + table.value(); }
  // Calls `use` with the rows of sparse tables once no exchange of the table is open. Without
  // rows, when all steps are done and this worker does not evaluate: FAILED_PRECONDITION.
  absl::Status Use(TableId table, absl::Time deadline,
                   absl::FunctionRef<absl::Status(RowStore& rows)> use);
  absl::Status PushUntil(TableId table, absl::Span<const uint64_t> keys,
                         absl::Span<const float> gradients, absl::Span<const uint64_t> next_keys,
                         absl::Time deadline);

  Clock* const clock_;
  const std::vector<v1::TableSpec>* const tables_;
  ProgramSteps* const steps_;
  const size_t first_part_;
  const Await before_push_;
};

}  // namespace capstan

#endif  // WORKER_PROGRAM_PROGRAM_ROWS_H_
