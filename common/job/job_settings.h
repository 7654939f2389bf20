#ifndef COMMON_JOB_JOB_SETTINGS_H_
#define COMMON_JOB_JOB_SETTINGS_H_

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/job.pb.h"

namespace capstan {

// A field of the job, and how command lines name it: what proto/job.proto says of it.
struct JobSetting {
  std::string path;       // in JobSpec, such as "optimizer.learning_rate"
  std::string flag;       // without dashes; empty: --field=PATH=VALUE alone reaches it
  std::string value;      // the value's name in help, with its unit; empty for bool and enum
  std::string only_with;  // as v1::Setting.only_with
  const google::protobuf::FieldDescriptor* descriptor;

  // How the code names it: the flag, or the path if there is none.
  const std::string& key() const { return flag.empty() ? path : flag; }
  // How people do: "--FLAG" or "--field=PATH".
  std::string OnCommandLine() const;
};

// Every field of the job that has a value, in the order of job.proto. Thread-safe.
const std::vector<JobSetting>& JobSettings();

// The setting with this flag or this path; null: there is none.
const JobSetting* FindJobSetting(absl::string_view flag_or_path);

// The message within `job` that has the field. Creates the messages on the way, without changing
// what they hold.
google::protobuf::Message* MessageOf(const JobSetting& setting, v1::JobSpec* job);

// The field's value in `job`, or its default, as SetFieldText reads it.
std::string SettingText(const JobSetting& setting, v1::JobSpec* job);

}  // namespace capstan

#endif  // COMMON_JOB_JOB_SETTINGS_H_
