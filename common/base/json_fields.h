#ifndef COMMON_BASE_JSON_FIELDS_H_
#define COMMON_BASE_JSON_FIELDS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/string_view.h"

// Reads JSON from untrusted writers.

namespace capstan {

// Parses `text`. The result is discarded (is_discarded()) when `text` is not JSON, or is nested
// more than 100 deep: nlohmann-json prints nested values recursively.
nlohmann::json ParseJson(absl::string_view text);

// The field of `object` with this name; 0 or "" if there is none of the type. A count is a whole
// number from 0 to 2^64 - 1.
double NumberIn(const nlohmann::json& object, const char* name);
uint64_t CountIn(const nlohmann::json& object, const char* name);
std::string TextIn(const nlohmann::json& object, const char* name);

}  // namespace capstan

#endif  // COMMON_BASE_JSON_FIELDS_H_
