#include "common/model_file/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/little_endian.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

constexpr char kMetadata[] = "__metadata__";
constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kAlignment = 64;
constexpr size_t kMostDimensions = 32;

struct Dtype {
  absl::string_view name;
  uint64_t bits;
};
// All of version 0.8 of the format's library.
constexpr Dtype kDtypes[] = {{"C64", 64},    {"F64", 64},        {"I64", 64},        {"U64", 64},
                             {"F32", 32},    {"I32", 32},        {"U32", 32},        {"F16", 16},
                             {"BF16", 16},   {"I16", 16},        {"U16", 16},        {"I8", 8},
                             {"U8", 8},      {"BOOL", 8},        {"F8_E4M3", 8},     {"F8_E5M2", 8},
                             {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6},
                             {"F6_E3M2", 6}, {"F4", 4}};

// Null for an unknown one.
const Dtype* FindDtype(absl::string_view name) {
  const auto* const found = std::find_if(std::begin(kDtypes), std::end(kDtypes),
                                         [name](const Dtype& known) { return known.name == name; });
  return found == std::end(kDtypes) ? nullptr : found;
}

// The bits of a tensor, unless its elements or bytes are beyond 64 bits.
std::optional<unsigned __int128> BitsOf(const std::vector<uint64_t>& shape, const Dtype& dtype) {
  uint64_t elements = 1;
  for (const uint64_t size : shape) {
    if (__builtin_mul_overflow(elements, size, &elements)) return std::nullopt;
  }
  const unsigned __int128 bits = static_cast<unsigned __int128>(elements) * dtype.bits;
  if (bits / 8 > UINT64_MAX) return std::nullopt;
  return bits;
}

// Whether brackets lie more than 3 deep, as in no header. A parsed "[[[[" takes much memory.
bool IsDeep(absl::string_view json) {
  constexpr int kMostLevels = 3;
  int level = 0;
  bool is_text = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') is_text = !is_text;
    if (is_text && c == '\\') ++i;  // The next character is part of the text.
    if (is_text) continue;
    if (c == '{' || c == '[') ++level;
    if (c == '}' || c == ']') --level;
    if (level > kMostLevels) return true;
  }
  return false;
}

absl::Status Malformed(absl::string_view expected, absl::string_view got) {
  return absl::InvalidArgumentError(
      absl::StrCat("expected a safetensors header with ", expected, ", got ", got));
}

absl::Status MalformedTensor(absl::string_view name, absl::string_view expected,
                             absl::string_view got) {
  return Malformed(absl::StrCat(expected, " for tensor ", ShortPrintableText(name)), got);
}

// The numbers in a list; none if it is no list of unsigned integers.
std::optional<std::vector<uint64_t>> ReadNumbers(const nlohmann::json& json) {
  if (!json.is_array()) return std::nullopt;
  std::vector<uint64_t> numbers;
  for (const nlohmann::json& number : json) {
    if (!number.is_number_unsigned()) return std::nullopt;
    numbers.push_back(number.get<uint64_t>());
  }
  return numbers;
}

absl::StatusOr<Safetensors::Tensor> ReadTensor(const std::string& name, const nlohmann::json& json,
                                               uint64_t header_bytes) {
  if (!json.is_object() || !json.contains("dtype") || !json["dtype"].is_string() ||
      !json.contains("shape") || !json.contains("data_offsets")) {
    return MalformedTensor(name, "dtype, shape and data_offsets", "other fields");
  }
  Safetensors::Tensor tensor;
  tensor.name = name;
  tensor.dtype = json["dtype"].get<std::string>();
  const Dtype* const dtype = FindDtype(tensor.dtype);
  if (dtype == nullptr) {
    return MalformedTensor(name, "a dtype such as F32", ShortPrintableText(tensor.dtype));
  }
  const auto shape = ReadNumbers(json["shape"]);
  const auto offsets = ReadNumbers(json["data_offsets"]);
  if (!shape.has_value() || shape->size() > kMostDimensions) {
    return MalformedTensor(name, absl::StrCat("a shape of at most ", kMostDimensions, " sizes"),
                           "something else");
  }
  if (!offsets.has_value() || offsets->size() != 2 || (*offsets)[0] > (*offsets)[1]) {
    return MalformedTensor(name, "data_offsets [BEGIN, END]", "something else");
  }
  tensor.shape = *shape;
  tensor.bytes = (*offsets)[1] - (*offsets)[0];
  const std::optional<unsigned __int128> bits = BitsOf(tensor.shape, *dtype);
  if (bits != static_cast<unsigned __int128>(tensor.bytes) * 8) {
    constexpr absl::string_view kEighths[] = {"",   ".125", ".25", ".375",
                                              ".5", ".625", ".75", ".875"};
    const std::string expected = !bits.has_value()
                                     ? "2^64 or more"
                                     : absl::StrCat(static_cast<uint64_t>(*bits / 8),
                                                    kEighths[static_cast<size_t>(*bits % 8)]);
    return MalformedTensor(name, absl::StrCat(expected, " bytes, as its shape has"),
                           absl::StrCat(tensor.bytes));
  }
  if (__builtin_add_overflow(header_bytes, (*offsets)[0], &tensor.offset)) {
    return MalformedTensor(name, "bytes within the file", "an offset of 2^64 or more");
  }
  return tensor;
}

absl::StatusOr<std::map<std::string, std::string>> ReadMetadata(const nlohmann::json& json) {
  std::map<std::string, std::string> metadata;
  if (json.is_null()) return metadata;
  if (!json.is_object()) return Malformed("metadata of texts", "something else");
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) {
      return Malformed("metadata of texts",
                       absl::StrCat("another value of ", ShortPrintableText(key)));
    }
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

// Tensors follow each other without a gap, up to the end of the file.
absl::Status CheckPlaces(const Safetensors& file, uint64_t file_bytes) {
  uint64_t end = file.header_bytes;
  for (const Safetensors::Tensor& tensor : file.tensors) {
    if (tensor.offset != end || __builtin_add_overflow(end, tensor.bytes, &end)) {
      return MalformedTensor(tensor.name, absl::StrCat("bytes from ", end, " on"),
                             absl::StrCat(tensor.bytes, " bytes from ", tensor.offset, " on"));
    }
  }
  if (end == file_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("expected a safetensors file of ", end, " bytes, got ", file_bytes,
                   end > file_bytes ? ": its end is missing; copy or download it again" : ""));
}

}  // namespace

std::string EncodeSafetensorsHeader(const Safetensors& file, uint64_t least_bytes) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!file.metadata.empty()) json[kMetadata] = file.metadata;
  // Added as to a vector: json[name] would compare each name with all before it.
  auto& entries = json.get_ref<nlohmann::ordered_json::object_t&>();
  uint64_t end = 0;
  for (const Safetensors::Tensor& tensor : file.tensors) {
    const uint64_t begin = end;
    end += static_cast<uint64_t>(BitsOf(tensor.shape, *FindDtype(tensor.dtype)).value() / 8);
    entries.Container::emplace_back(
        tensor.name,
        nlohmann::ordered_json{
            {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}});
  }
  // A name need not be UTF-8.
  std::string text = json.dump(/*indent=*/-1, ' ', /*ensure_ascii=*/false,
                               nlohmann::ordered_json::error_handler_t::replace);
  // The format allows spaces at the end.
  const uint64_t bytes = std::max(kLengthBytes + text.size(), least_bytes);
  text.resize((bytes + kAlignment - 1) / kAlignment * kAlignment - kLengthBytes, ' ');
  std::string header;
  AppendLittleEndian(uint64_t{text.size()}, &header);
  return header + text;
}

absl::StatusOr<Safetensors> DecodeSafetensorsHeader(absl::string_view json, uint64_t file_bytes) {
  if (json.empty() || json[0] != '{') return Malformed("a JSON object", "other text");
  if (IsDeep(json)) return Malformed("at most 3 levels of JSON", "more");
  size_t names = 0;
  const auto count_names = [&names](int depth, nlohmann::json::parse_event_t event,
                                    const nlohmann::json&) {
    if (depth == 1 && event == nlohmann::json::parse_event_t::key) ++names;
    return true;
  };
  const nlohmann::json parsed =
      nlohmann::json::parse(json.begin(), json.end(), count_names, /*allow_exceptions=*/false);
  // The library takes a zero for the end.
  if (!parsed.is_object() || absl::StrContains(json, '\0')) {
    return Malformed("a JSON object", "other text");
  }
  if (names != parsed.size()) return Malformed("each name once", "a name twice");
  Safetensors file;
  file.header_bytes = kLengthBytes + json.size();
  if (file.header_bytes > file_bytes) {
    return Malformed(absl::StrCat("at most ", file_bytes, " bytes"),
                     absl::StrCat(file.header_bytes));
  }
  for (const auto& [name, value] : parsed.items()) {
    if (name == kMetadata) {
      ASSIGN_OR_RETURN(file.metadata, ReadMetadata(value));
      continue;
    }
    ASSIGN_OR_RETURN(file.tensors.emplace_back(), ReadTensor(name, value, file.header_bytes));
  }
  std::sort(file.tensors.begin(), file.tensors.end(),
            [](const Safetensors::Tensor& a, const Safetensors::Tensor& b) {
              return std::make_pair(a.offset, a.bytes) < std::make_pair(b.offset, b.bytes);
            });
  RETURN_IF_ERROR(CheckPlaces(file, file_bytes));
  return file;
}

}  // namespace capstan
