#ifndef SERVER_COORDINATOR_MEMBERS_JOB_EVENT_H_
#define SERVER_COORDINATOR_MEMBERS_JOB_EVENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace capstan {

// One line of the coordinator's log. May have text of a peer that is not printable.
struct JobEvent {
  // Implicit: most events are a text alone.
  JobEvent(std::string text) : text(std::move(text)) {}
  JobEvent(std::string text, std::optional<int64_t> step, std::string reason = "")
      : text(std::move(text)), step(step), reason(std::move(reason)) {}

  std::string text;
  std::optional<int64_t> step;  // if the text names one
  std::string reason;           // of a failure, as in the text; empty: none
  bool is_warning = false;      // something is wrong, and the job goes on
};

using JobEvents = std::vector<JobEvent>;

// Writes the line, printable.
void Log(const JobEvent& event);

}  // namespace capstan

#endif  // SERVER_COORDINATOR_MEMBERS_JOB_EVENT_H_
