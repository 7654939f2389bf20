#ifndef TESTS_INTEGRATION_README_COMMANDS_H_
#define TESTS_INTEGRATION_README_COMMANDS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace capstan {

// The commands of a README, without comments. The commands of a fenced block are one element; a
// block with a language, such as ```python, has none. A line of the block is a command unless it
// begins with a space; a backslash joins it with the next line. A training command in running text
// is an element of its own.
std::vector<std::vector<std::string>> ReadmeCommands(absl::string_view markdown);

}  // namespace capstan

#endif  // TESTS_INTEGRATION_README_COMMANDS_H_
