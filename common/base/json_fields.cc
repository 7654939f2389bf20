#include "common/base/json_fields.h"

namespace capstan {
namespace {

using ::nlohmann::json;

constexpr int kMostDepth = 100;

}  // namespace

json ParseJson(absl::string_view text) {
  bool is_too_deep = false;
  json value = json::parse(
      text.begin(), text.end(),
      [&is_too_deep](int depth, json::parse_event_t, json&) {
        is_too_deep |= depth > kMostDepth;
        return !is_too_deep;
      },
      /*allow_exceptions=*/false);
  return is_too_deep ? json(json::value_t::discarded) : value;
}

double NumberIn(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

uint64_t CountIn(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

std::string TextIn(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace capstan
