#ifndef COMMON_TRACE_TRACED_TEXT_H_
#define COMMON_TRACE_TRACED_TEXT_H_

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace capstan {

// For tests, the events in a trace file, one line each: phase, name, time and arguments. Metadata
// is left out.
inline std::string TracedText(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  for (const nlohmann::json& event : nlohmann::json::parse(file)) {
    if (event["ph"] == "M") continue;
    text += event["ph"].get<std::string>() + " " + event["name"].get<std::string>() + " " +
            event["ts"].dump();
    if (event.contains("args") && !event["args"].empty()) text += " " + event["args"].dump();
    text += "\n";
  }
  return text;
}

}  // namespace capstan

#endif  // COMMON_TRACE_TRACED_TEXT_H_
