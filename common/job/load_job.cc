#include "common/job/load_job.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/input_file.h"
#include "common/base/nearest_name.h"
#include "common/base/status_macros.h"
#include "common/job/job_properties.h"

namespace capstan {
namespace {

using ::google::protobuf::Descriptor;
using ::google::protobuf::EnumDescriptor;
using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::TextFormat;

// Keeps the first error; lines and columns count from 0.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (!message_.empty()) return;
    line_ = line;
    column_ = column;
    message_ = message;
  }
  void AddWarning(int, google::protobuf::io::ColumnNumber, const std::string&) override {}

  int line() const { return line_; }
  int column() const { return column_; }
  const std::string& message() const { return message_; }

 private:
  int line_ = 0;
  int column_ = 0;
  std::string message_;
};

// The index of the last begun message of `field`, a list of messages.
int LastIndex(const FieldDescriptor* field, const TextFormat::ParseInfoTree& tree) {
  int count = 0;
  while (tree.GetTreeForNested(field, count) != nullptr) ++count;
  return count - 1;
}

// The innermost message with open braces at the end of parsing. The parser sets the location of a
// field with a tree of its own at the closing brace.
const Descriptor* OpenMessage(const Descriptor* message, const TextFormat::ParseInfoTree& tree) {
  for (int i = 0; i < message->field_count(); ++i) {
    const FieldDescriptor* field = message->field(i);
    if (field->message_type() == nullptr) continue;
    const int index = field->is_repeated() ? LastIndex(field, tree) : -1;
    if (field->is_repeated() && index < 0) continue;
    const TextFormat::ParseInfoTree* nested = tree.GetTreeForNested(field, index);
    if (nested == nullptr || tree.GetLocation(field, index).line >= 0) continue;
    return OpenMessage(field->message_type(), *nested);
  }
  return message;
}

std::vector<std::string> FieldNames(const Descriptor& message) {
  std::vector<std::string> names;
  for (int i = 0; i < message.field_count(); ++i) names.push_back(message.field(i)->name());
  return names;
}

// What stands in quotes at the end of the parser's error.
std::string QuotedEnd(absl::string_view error) {
  absl::ConsumeSuffix(&error, "\"");
  return std::string(error.substr(error.rfind('"') + 1));
}

// Values of the enum field of `message` named, in quotes, in `error`; empty if there is none.
std::string EnumValues(const Descriptor& message, const std::string& error) {
  for (int i = 0; i < message.field_count(); ++i) {
    const EnumDescriptor* type = message.field(i)->enum_type();
    if (type == nullptr) continue;
    if (!absl::StrContains(error, absl::StrCat("field \"", message.field(i)->name(), "\""))) {
      continue;
    }
    std::vector<std::string> names;
    for (int v = 0; v < type->value_count(); ++v) {
      if (type->value(v)->number() != 0) names.push_back(type->value(v)->name());
    }
    return absl::StrJoin(names, ", ");
  }
  return "";
}

std::string WithExpectation(std::string error, const Descriptor& message) {
  if (absl::EndsWith(error, ".")) error.pop_back();
  if (absl::StrContains(error, "has no field named")) {
    return absl::StrCat(error, DidYouMean(QuotedEnd(error), FieldNames(message)),
                        "; expected one of: ", absl::StrJoin(FieldNames(message), ", "));
  }
  const std::string values = EnumValues(message, error);
  return values.empty() ? error : absl::StrCat(error, "; expected one of: ", values);
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  constexpr uint64_t kMostBytes = 16 << 20;
  absl::StatusOr<std::string> text = ReadInputText(path, kMostBytes);
  if (text.ok()) return text;
  return absl::NotFoundError(absl::StrCat("job file ", path, ": expected a readable file, got \"",
                                          text.status().message(), "\"; check the path"));
}

void Resolve(const std::filesystem::path& folder, std::string* path) {
  if (path->empty()) return;
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(folder / *path, error);
  if (!error) *path = absolute.lexically_normal();
}

}  // namespace

absl::StatusOr<v1::JobSpec> LoadJobFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  FirstError error;
  TextFormat::ParseInfoTree tree;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.WriteLocationsTo(&tree);
  v1::JobSpec job;
  if (parser.ParseFromString(text, &job)) {
    ResolvePaths(std::filesystem::path(path).parent_path(), &job);
    return job;
  }
  const Descriptor* open = OpenMessage(v1::JobSpec::descriptor(), tree);
  return absl::InvalidArgumentError(absl::StrCat(path, ":", error.line() + 1, ":",
                                                 error.column() + 1, ": ",
                                                 WithExpectation(error.message(), *open)));
}

void ResolveModelPaths(const std::string& folder, v1::JobSpec* job) {
  if (job->has_initial()) Resolve(folder, job->mutable_initial());
  if (job->has_output()) Resolve(folder, job->mutable_output());
  if (!job->has_checkpoint()) return;
  v1::CheckpointSpec* checkpoint = job->mutable_checkpoint();
  if (checkpoint->has_dir()) Resolve(folder, checkpoint->mutable_dir());
  const bool is_path = checkpoint->has_restore() && checkpoint->restore() != kLatestCheckpoint;
  if (is_path) Resolve(folder, checkpoint->mutable_restore());
}

void ResolvePaths(const std::string& folder, v1::JobSpec* job) {
  ResolveModelPaths(folder, job);
  if (!job->has_data()) return;
  v1::DataSpec* data = job->mutable_data();
  if (data->has_path() && data->path() != kStandardInputPath) {
    Resolve(folder, data->mutable_path());
  }
  if (data->has_labels_path()) Resolve(folder, data->mutable_labels_path());
  if (data->has_test_path()) Resolve(folder, data->mutable_test_path());
  if (data->has_test_labels_path()) Resolve(folder, data->mutable_test_labels_path());
}

std::string JobText(const v1::JobSpec& job) {
  std::string text;
  TextFormat::PrintToString(job, &text);
  return text;
}

absl::Status SaveJobFile(const v1::JobSpec& job, const std::string& path) {
  errno = 0;
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << JobText(job);
  out.close();
  if (!out.fail()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("job file ", path, ": expected to write it, got \"",
                                             std::strerror(errno), "\"; check the folder"));
}

}  // namespace capstan
