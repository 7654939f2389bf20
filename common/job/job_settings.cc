#include "common/job/job_settings.h"

#include <google/protobuf/message.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/job/field_text.h"

namespace capstan {
namespace {

using ::google::protobuf::Descriptor;
using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;

void AddSettings(const Descriptor& message, const std::string& prefix,
                 std::vector<JobSetting>& settings) {
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor* field = message.field(i);
    const std::string path = prefix + field->name();
    if (field->message_type() != nullptr && !field->is_repeated()) {
      AddSettings(*field->message_type(), path + ".", settings);
      continue;
    }
    const v1::Setting& setting = field->options().GetExtension(v1::setting);
    settings.push_back({path, setting.flag(), setting.value(), setting.only_with(), field});
  }
}

std::vector<JobSetting> ReadSettings() {
  std::vector<JobSetting> settings;
  AddSettings(*v1::JobSpec::descriptor(), "", settings);
  return settings;
}

}  // namespace

std::string JobSetting::OnCommandLine() const {
  return flag.empty() ? absl::StrCat("--field=", path) : absl::StrCat("--", flag);
}

const std::vector<JobSetting>& JobSettings() {
  static const auto& settings = *new std::vector<JobSetting>(ReadSettings());
  return settings;
}

const JobSetting* FindJobSetting(absl::string_view flag_or_path) {
  if (flag_or_path.empty()) return nullptr;
  for (const JobSetting& setting : JobSettings()) {
    if (setting.flag == flag_or_path) return &setting;
  }
  for (const JobSetting& setting : JobSettings()) {
    if (setting.path == flag_or_path) return &setting;
  }
  return nullptr;
}

Message* MessageOf(const JobSetting& setting, v1::JobSpec* job) {
  Message* message = job;
  const std::vector<std::string> parts = absl::StrSplit(setting.path, '.');
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(parts[i]);
    message = message->GetReflection()->MutableMessage(message, field);
  }
  return message;
}

std::string SettingText(const JobSetting& setting, v1::JobSpec* job) {
  return FieldText(*MessageOf(setting, job), *setting.descriptor);
}

}  // namespace capstan
