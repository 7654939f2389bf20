#include "common/job/job_checker.h"

#include <glog/logging.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "common/job/field_text.h"
#include "common/job/job_flag_table.h"

namespace capstan {
namespace {

const JobFlag& FlagOf(absl::string_view name) {
  const JobFlag* flag = FindJobFlag(name);
  CHECK(flag != nullptr) << name;
  return *flag;
}

}  // namespace

void JobChecker::Expect(bool holds, absl::string_view flag_name, absl::string_view expected) {
  if (holds || !status_.ok()) return;
  const JobField field = FieldOf(FlagOf(flag_name), &job_);
  const std::string got = FieldText(*field.message, *field.descriptor);
  Refuse(flag_name, absl::StrCat("expected ", expected, ", got ", got.empty() ? "nothing" : got));
}

void JobChecker::ExpectOk(const absl::Status& status, absl::string_view flag_name) {
  if (!status.ok() && status_.ok()) Refuse(flag_name, status.message());
}

void JobChecker::Refuse(absl::string_view flag_name, absl::string_view why) {
  status_ = absl::InvalidArgumentError(
      absl::StrCat("--", flag_name, ": ", why, " (", FlagOf(flag_name).field, " in a job file)"));
}

}  // namespace capstan
