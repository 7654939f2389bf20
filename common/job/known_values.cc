#include "common/job/known_values.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/unknown_field_set.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/job/field_text.h"

namespace capstan {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::google::protobuf::UnknownField;
using ::google::protobuf::UnknownFieldSet;

absl::Status UnknownNumber(const FieldDescriptor& field, absl::string_view got) {
  return absl::InvalidArgumentError(absl::StrCat(field.name(), ": expected one of ",
                                                 absl::StrJoin(EnumNames(*field.enum_type()), ", "),
                                                 ", got ", got, "; use programs of one version"));
}

// The parser keeps an enum's number there if it has no name.
absl::Status CheckUnknownFields(const Message& message) {
  const UnknownFieldSet& unknown = message.GetReflection()->GetUnknownFields(message);
  for (int i = 0; i < unknown.field_count(); ++i) {
    const UnknownField& value = unknown.field(i);
    const FieldDescriptor* field = message.GetDescriptor()->FindFieldByNumber(value.number());
    if (field == nullptr || field->enum_type() == nullptr) continue;
    const bool is_number = value.type() == UnknownField::TYPE_VARINT;
    return UnknownNumber(*field, is_number ? absl::StrCat(static_cast<int64_t>(value.varint()))
                                           : std::string("something else"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckEnumsAreKnown(const Message& message) {
  RETURN_IF_ERROR(CheckUnknownFields(message));
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->message_type() == nullptr) continue;
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const Message& inner = field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                                  : reflection.GetMessage(message, field);
      const absl::Status status = CheckEnumsAreKnown(inner);
      if (status.ok()) continue;
      return absl::Status(status.code(), absl::StrCat(field->name(), ".", status.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace capstan
