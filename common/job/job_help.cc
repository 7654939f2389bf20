#include "common/job/job_help.h"

#include <glog/logging.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <map>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/flag_help.h"
#include "common/job/field_text.h"
#include "common/job/job_descriptor.h"
#include "common/job/job_settings.h"

namespace capstan {
namespace {

using ::google::protobuf::DescriptorProto;
using ::google::protobuf::EnumDescriptorProto;
using ::google::protobuf::EnumValueDescriptor;
using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::FileDescriptorProto;
using ::google::protobuf::SourceCodeInfo;

// As job.proto in its own package.
constexpr absl::string_view kPackage = "capstan.v1.";

// What is at this place of the file: a field of a message, or a value of a message's enum. Empty:
// something else.
std::string NameAt(const SourceCodeInfo::Location& place, const FileDescriptorProto& file) {
  const auto& path = place.path();
  if (path.size() < 4 || path[0] != FileDescriptorProto::kMessageTypeFieldNumber) return "";
  const DescriptorProto& message = file.message_type(path[1]);
  if (path.size() == 4 && path[2] == DescriptorProto::kFieldFieldNumber) {
    return absl::StrCat(message.name(), ".", message.field(path[3]).name());
  }
  if (path.size() == 6 && path[2] == DescriptorProto::kEnumTypeFieldNumber &&
      path[4] == EnumDescriptorProto::kValueFieldNumber) {
    const EnumDescriptorProto& type = message.enum_type(path[3]);
    return absl::StrCat(message.name(), ".", type.name(), ".", type.value(path[5]).name());
  }
  return "";
}

std::map<std::string, std::string> ReadComments() {
  google::protobuf::FileDescriptorSet files;
  CHECK(files.ParseFromArray(kJobDescriptor, sizeof(kJobDescriptor) - 1)) << "job.proto";
  const FileDescriptorProto& file = files.file(0);
  std::map<std::string, std::string> comments;
  for (const SourceCodeInfo::Location& place : file.source_code_info().location()) {
    std::string comment = place.leading_comments();
    absl::RemoveExtraAsciiWhitespace(&comment);
    const std::string name = NameAt(place, file);
    if (!name.empty() && !comment.empty()) comments[name] = std::move(comment);
  }
  return comments;
}

std::string CommentOn(const std::string& full_name) {
  CHECK(absl::StartsWith(full_name, kPackage)) << full_name;
  return JobComment(absl::string_view(full_name).substr(kPackage.size()));
}

// The comment on the field, those on its enum's values, and its default.
std::string HelpOn(const JobSetting& setting) {
  std::string help = CommentOn(setting.descriptor->full_name());
  std::vector<std::string> values;
  const auto* type = setting.descriptor->enum_type();
  for (int i = 0; type != nullptr && i < type->value_count(); ++i) {
    const EnumValueDescriptor& value = *type->value(i);
    // Its full name lacks the enum's.
    const std::string comment = CommentOn(absl::StrCat(type->full_name(), ".", value.name()));
    if (comment.empty()) continue;
    values.push_back(absl::StrCat(absl::AsciiStrToLower(value.name()), ": ", comment));
  }
  if (!values.empty()) absl::StrAppend(&help, " ", absl::StrJoin(values, ". "), ".");
  v1::JobSpec defaults;
  const std::string standard = SettingText(setting, &defaults);
  return absl::StrCat(help, " Default: ", standard.empty() ? "none" : standard, ".");
}

// Such as "Optimizer" for "optimizer.learning_rate".
std::string Heading(const JobSetting& setting) {
  const size_t dot = setting.path.find('.');
  if (dot == std::string::npos) return "Job";
  std::string heading = setting.path.substr(0, dot);
  heading[0] = absl::ascii_toupper(heading[0]);
  return heading;
}

std::string ValueOf(const JobSetting& setting) {
  const FieldDescriptor& field = *setting.descriptor;
  if (field.enum_type() != nullptr) return absl::StrJoin(EnumNames(*field.enum_type()), "|");
  return setting.value.empty() ? "true|false" : setting.value;
}

std::string FlagUsage(const JobSetting& setting) {
  if (setting.descriptor->cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
    return absl::StrCat("--[no]", setting.flag);
  }
  return absl::StrCat("--", setting.flag, "=", ValueOf(setting));
}

}  // namespace

std::string JobComment(absl::string_view name) {
  static const auto& comments = *new std::map<std::string, std::string>(ReadComments());
  const auto found = comments.find(std::string(name));
  return found == comments.end() ? "" : found->second;
}

std::string JobFlagsHelp() {
  std::vector<FlagHelp> flags;
  for (const JobSetting& setting : JobSettings()) {
    if (setting.flag.empty()) continue;
    flags.push_back({Heading(setting), FlagUsage(setting), HelpOn(setting)});
  }
  flags.push_back({"Other fields", "--field=FIELD=VALUE",
                   "Any field of a job file, such as --field=limits.message_bytes=32M; may be "
                   "given several times. capstan help fields lists those without a flag. Default: "
                   "none."});
  return FormatFlagHelp(flags);
}

std::string JobFieldsHelp() {
  std::vector<FlagHelp> fields;
  for (const JobSetting& setting : JobSettings()) {
    if (!setting.flag.empty()) continue;
    fields.push_back({Heading(setting),
                      absl::StrCat("--field=", setting.path, "=", ValueOf(setting)),
                      HelpOn(setting)});
  }
  return FormatFlagHelp(fields);
}

}  // namespace capstan
