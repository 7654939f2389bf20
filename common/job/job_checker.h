#ifndef COMMON_JOB_JOB_CHECKER_H_
#define COMMON_JOB_JOB_CHECKER_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"

namespace capstan {

// Checks what a job must fulfil, and keeps the first expectation not met. Not thread-safe.
class JobChecker {
 public:
  explicit JobChecker(const v1::JobSpec& job) : job_(job) {}

  // Expects that `holds`. `setting` is a flag, or the path of a field without one. The message says
  // what was `expected` of the field, and its value.
  void Expect(bool holds, absl::string_view setting, absl::string_view expected);
  // The same for what `status` says: what was expected and got.
  void ExpectOk(const absl::Status& status, absl::string_view setting);

  // INVALID_ARGUMENT "--flag: expected ..., got ... (field in a job file)", or "field: expected
  // ..., got ...".
  const absl::Status& status() const { return status_; }

 private:
  void Refuse(absl::string_view setting, absl::string_view why);

  v1::JobSpec job_;
  absl::Status status_;
};

}  // namespace capstan

#endif  // COMMON_JOB_JOB_CHECKER_H_
