#ifndef COMMON_BASE_JSON_FIELDS_H_
#define COMMON_BASE_JSON_FIELDS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/string_view.h"

// Reading of JSON that may have been written by anybody.

namespace capstan {

// The value that `text` is. It is discarded (is_discarded()) when it is none, or when objects and
// lists lie in more than 100 others: nlohmann-json writes what it has read one call within another.
nlohmann::json ParseJson(absl::string_view text);

// The field of `object` with this name; 0 or "" where there is none of that type. A count is a
// whole number from 0 to 2^64 - 1.
double NumberIn(const nlohmann::json& object, const char* name);
uint64_t CountIn(const nlohmann::json& object, const char* name);
std::string TextIn(const nlohmann::json& object, const char* name);

}  // namespace capstan

#endif  // COMMON_BASE_JSON_FIELDS_H_
