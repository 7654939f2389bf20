#ifndef TESTS_INTEGRATION_README_COMMANDS_H_
#define TESTS_INTEGRATION_README_COMMANDS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace capstan {

// The commands of a README, without their comments. Those of a fenced block are one element: each
// of its lines that does not begin with a space is a command, with the lines that a backslash
// appends. A command that trains, in running text, is an element of its own.
std::vector<std::vector<std::string>> ReadmeCommands(absl::string_view markdown);

}  // namespace capstan

#endif  // TESTS_INTEGRATION_README_COMMANDS_H_
