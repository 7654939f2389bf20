#ifndef COMMON_JOB_FIELD_TEXT_H_
#define COMMON_JOB_FIELD_TEXT_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace capstan {

// Sets a field from a person's text. Enum values may be in any case. Lists have commas. A list of
// messages is "name:value,name:value" (their first and second field). A number stands behind the
// last colon, a text behind the first one. A field called *_bytes may have a suffix K, M or G, with
// or without iB (powers of 1024). INVALID_ARGUMENT "expected ..., got ..." leaves the field as it
// was.
absl::Status SetFieldText(google::protobuf::Message* message,
                          const google::protobuf::FieldDescriptor& field, absl::string_view text);

// The field's value, or its default, as SetFieldText reads it: exactly the same value.
std::string FieldText(const google::protobuf::Message& message,
                      const google::protobuf::FieldDescriptor& field);

// Lower-case names of the enum's values, without the unspecified one.
std::vector<std::string> EnumNames(const google::protobuf::EnumDescriptor& type);

// The shortest exact text, such as "64", "4KiB" or "1MiB".
std::string FormatSize(uint64_t bytes);

}  // namespace capstan

#endif  // COMMON_JOB_FIELD_TEXT_H_
