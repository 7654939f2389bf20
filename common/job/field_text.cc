#include "common/job/field_text.h"

#include <glog/logging.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

using ::google::protobuf::EnumDescriptor;
using ::google::protobuf::EnumValueDescriptor;
using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::google::protobuf::Reflection;

constexpr struct {
  char letter;
  int shift;
} kSuffixes[] = {{'K', 10}, {'M', 20}, {'G', 30}};

absl::Status Unexpected(absl::string_view expected, absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat("expected ", expected, "; got \"", text, "\""));
}

std::optional<uint64_t> ParseSize(absl::string_view text) {
  int shift = 0;
  for (const auto& suffix : kSuffixes) {
    const std::string letter(1, suffix.letter);
    if (!absl::EndsWithIgnoreCase(text, letter) && !absl::EndsWithIgnoreCase(text, letter + "iB")) {
      continue;
    }
    shift = suffix.shift;
    text = text.substr(0, text.find_last_of(letter + absl::AsciiStrToLower(letter)));
    break;
  }
  uint64_t count = 0;
  if (!absl::SimpleAtoi(text, &count) || count > (UINT64_MAX >> shift)) return std::nullopt;
  return count << shift;
}

absl::Status SetEnum(Message* message, const FieldDescriptor& field, absl::string_view text) {
  const EnumValueDescriptor* value =
      field.enum_type()->FindValueByName(absl::AsciiStrToUpper(text));
  if (value == nullptr || value->number() == 0) {
    return Unexpected(absl::StrCat("one of ", absl::StrJoin(EnumNames(*field.enum_type()), ", ")),
                      text);
  }
  message->GetReflection()->SetEnum(message, &field, value);
  return absl::OkStatus();
}

// As few digits as give the same number again.
std::string DoubleText(double value) {
  for (const int digits : {6, 15, 16}) {
    const std::string text = absl::StrFormat("%.*g", digits, value);
    double same = 0;
    if (absl::SimpleAtod(text, &same) && same == value) return text;
  }
  return absl::StrFormat("%.17g", value);
}

// The only lists of messages are pairs of a name, and an int64 or a text. A text may have colons
// itself.
absl::Status SetPairs(Message* message, const FieldDescriptor& field, absl::string_view text) {
  const FieldDescriptor* second = field.message_type()->field(1);
  const bool is_number = second->cpp_type() == FieldDescriptor::CPPTYPE_INT64;
  std::vector<std::pair<std::string, absl::string_view>> pairs;
  if (!text.empty()) {
    for (const absl::string_view part : absl::StrSplit(text, ',')) {
      const size_t colon = is_number ? part.rfind(':') : part.find(':');
      const bool is_pair = colon != part.npos && colon > 0 && colon + 1 < part.size();
      int64_t number = 0;
      if (!is_pair || (is_number && !absl::SimpleAtoi(part.substr(colon + 1), &number))) {
        return Unexpected(
            is_number ? "NAME:NUMBER between commas, such as fc1.weight:2,fc1.bias:0"
                      : "NAME:TEXT between commas, such as fc1.weight:int8,fc1.bias:float32",
            text);
      }
      pairs.emplace_back(part.substr(0, colon), part.substr(colon + 1));
    }
  }
  message->GetReflection()->ClearField(message, &field);
  for (const auto& [name, value] : pairs) {
    Message* const pair = message->GetReflection()->AddMessage(message, &field);
    pair->GetReflection()->SetString(pair, field.message_type()->field(0), name);
    RETURN_IF_ERROR(SetFieldText(pair, *second, value));
  }
  return absl::OkStatus();
}

std::string PairsText(const Message& message, const FieldDescriptor& field) {
  std::vector<std::string> parts;
  for (int i = 0; i < message.GetReflection()->FieldSize(message, &field); ++i) {
    const Message& pair = message.GetReflection()->GetRepeatedMessage(message, &field, i);
    parts.push_back(absl::StrCat(FieldText(pair, *field.message_type()->field(0)), ":",
                                 FieldText(pair, *field.message_type()->field(1))));
  }
  return absl::StrJoin(parts, ",");
}

// The only other lists are of uint32.
absl::Status SetList(Message* message, const FieldDescriptor& field, absl::string_view text) {
  CHECK_EQ(field.cpp_type(), FieldDescriptor::CPPTYPE_UINT32) << field.full_name();
  std::vector<uint32_t> numbers;
  if (!text.empty()) {
    for (absl::string_view part : absl::StrSplit(text, ',')) {
      if (!absl::SimpleAtoi(part, &numbers.emplace_back())) {
        return Unexpected("whole numbers between commas, such as 128,64", text);
      }
    }
  }
  message->GetReflection()->ClearField(message, &field);
  for (uint32_t number : numbers) message->GetReflection()->AddUInt32(message, &field, number);
  return absl::OkStatus();
}

absl::Status SetUnsigned64(Message* message, const FieldDescriptor& field, absl::string_view text) {
  uint64_t number = 0;
  if (absl::EndsWith(field.name(), "_bytes")) {
    const std::optional<uint64_t> size = ParseSize(text);
    if (!size.has_value()) return Unexpected("a size in bytes, such as 65536, 64KiB or 1MiB", text);
    number = *size;
  } else if (!absl::SimpleAtoi(text, &number)) {
    return Unexpected("a whole number, 0 or more", text);
  }
  message->GetReflection()->SetUInt64(message, &field, number);
  return absl::OkStatus();
}

absl::Status SetNumber(Message* message, const FieldDescriptor& field, absl::string_view text) {
  const Reflection* reflection = message->GetReflection();
  uint32_t unsigned32;
  int32_t signed32;
  int64_t signed64;
  double real;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT64:
      return SetUnsigned64(message, field, text);
    case FieldDescriptor::CPPTYPE_UINT32:
      if (!absl::SimpleAtoi(text, &unsigned32)) {
        return Unexpected("a whole number from 0 to 4294967295", text);
      }
      reflection->SetUInt32(message, &field, unsigned32);
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_INT32:
      if (!absl::SimpleAtoi(text, &signed32)) return Unexpected("a whole number", text);
      reflection->SetInt32(message, &field, signed32);
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_INT64:
      if (!absl::SimpleAtoi(text, &signed64)) return Unexpected("a whole number", text);
      reflection->SetInt64(message, &field, signed64);
      return absl::OkStatus();
    default:
      CHECK_EQ(field.cpp_type(), FieldDescriptor::CPPTYPE_DOUBLE) << field.full_name();
      if (!absl::SimpleAtod(text, &real)) return Unexpected("a number, such as 0.05", text);
      reflection->SetDouble(message, &field, real);
      return absl::OkStatus();
  }
}

}  // namespace

absl::Status SetFieldText(Message* message, const FieldDescriptor& field, absl::string_view text) {
  const Reflection* reflection = message->GetReflection();
  if (field.is_repeated() && field.message_type() != nullptr) {
    return SetPairs(message, field, text);
  }
  if (field.is_repeated()) return SetList(message, field, text);
  if (field.enum_type() != nullptr) return SetEnum(message, field, text);
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    reflection->SetString(message, &field, std::string(text));
    return absl::OkStatus();
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
    bool flag = absl::EqualsIgnoreCase(text, "on");
    if (!flag && !absl::EqualsIgnoreCase(text, "off") && !absl::SimpleAtob(text, &flag)) {
      return Unexpected("true or false, or on or off", text);
    }
    reflection->SetBool(message, &field, flag);
    return absl::OkStatus();
  }
  return SetNumber(message, field, text);
}

std::string FieldText(const Message& message, const FieldDescriptor& field) {
  const Reflection* reflection = message.GetReflection();
  if (field.is_repeated() && field.message_type() != nullptr) return PairsText(message, field);
  if (field.is_repeated()) {
    std::vector<uint32_t> numbers;
    for (int i = 0; i < reflection->FieldSize(message, &field); ++i) {
      numbers.push_back(reflection->GetRepeatedUInt32(message, &field, i));
    }
    return absl::StrJoin(numbers, ",");
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_ENUM:
      return absl::AsciiStrToLower(reflection->GetEnum(message, &field)->name());
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection->GetString(message, &field);
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection->GetBool(message, &field) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_UINT64: {
      const uint64_t number = reflection->GetUInt64(message, &field);
      return absl::EndsWith(field.name(), "_bytes") ? FormatSize(number) : absl::StrCat(number);
    }
    case FieldDescriptor::CPPTYPE_UINT32:
      return absl::StrCat(reflection->GetUInt32(message, &field));
    case FieldDescriptor::CPPTYPE_INT32:
      return absl::StrCat(reflection->GetInt32(message, &field));
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat(reflection->GetInt64(message, &field));
    default:
      CHECK_EQ(field.cpp_type(), FieldDescriptor::CPPTYPE_DOUBLE) << field.full_name();
      return DoubleText(reflection->GetDouble(message, &field));
  }
}

std::vector<std::string> EnumNames(const EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->number() != 0) names.push_back(absl::AsciiStrToLower(type.value(i)->name()));
  }
  return names;
}

std::string FormatSize(uint64_t bytes) {
  std::string text = absl::StrCat(bytes);
  for (const auto& suffix : kSuffixes) {
    const uint64_t unit = uint64_t{1} << suffix.shift;
    if (bytes > 0 && bytes % unit == 0) {
      text = absl::StrCat(bytes / unit, std::string(1, suffix.letter), "iB");
    }
  }
  return text;
}

}  // namespace capstan
