#ifndef DEPLOY_CLI_HELP_TOPICS_H_
#define DEPLOY_CLI_HELP_TOPICS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace capstan {

// What `capstan help NAME` prints about a subject that concerns several commands.
struct HelpTopic {
  absl::string_view name;
  absl::string_view summary;        // for the list of topics
  absl::string_view text;           // one screen, with examples
  std::string (*rest)() = nullptr;  // of the text, if there is more
};

// All topics, in the order of the list.
absl::Span<const HelpTopic> HelpTopics();

}  // namespace capstan

#endif  // DEPLOY_CLI_HELP_TOPICS_H_
