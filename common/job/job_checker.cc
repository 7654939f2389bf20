#include "common/job/job_checker.h"

#include <glog/logging.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "common/job/job_settings.h"

namespace capstan {
namespace {

const JobSetting& Find(absl::string_view name) {
  const JobSetting* setting = FindJobSetting(name);
  CHECK(setting != nullptr) << name;
  return *setting;
}

}  // namespace

void JobChecker::Expect(bool holds, absl::string_view setting, absl::string_view expected) {
  if (holds || !status_.ok()) return;
  const std::string got = SettingText(Find(setting), &job_);
  Refuse(setting, absl::StrCat("expected ", expected, ", got ", got.empty() ? "nothing" : got));
}

void JobChecker::ExpectOk(const absl::Status& status, absl::string_view setting) {
  if (!status.ok() && status_.ok()) Refuse(setting, status.message());
}

void JobChecker::Refuse(absl::string_view name, absl::string_view why) {
  const JobSetting& setting = Find(name);
  status_ = absl::InvalidArgumentError(
      setting.flag.empty()
          ? absl::StrCat(setting.path, ": ", why)
          : absl::StrCat("--", setting.flag, ": ", why, " (", setting.path, " in a job file)"));
}

}  // namespace capstan
