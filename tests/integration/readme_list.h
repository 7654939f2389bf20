#ifndef TESTS_INTEGRATION_README_LIST_H_
#define TESTS_INTEGRATION_README_LIST_H_

#include <string>
#include <utility>
#include <vector>

namespace capstan {

using Replaced = std::vector<std::pair<std::string, std::string>>;

// How a command is tested. A command that is run in several ways is listed several times.
struct Listed {
  const char* command;
  // Label of the test that does it, or the same in small; or of a benchmark with a smoke test.
  // Empty: none.
  std::string other_test = {};
  // The command is run here. Placeholders and expensive parts are replaced before.
  bool is_run = false;
  Replaced replaced = {};
  // Expected fields of the summary, and the least test accuracy. Empty: there is no summary.
  std::string summary = {};
  double least_accuracy = 0;
  int exit_code = 0;
  // A part of its output, as in a README.
  std::string prints = {};
};

// The commands of every README, in the order of kReadmes in readme_test.cc.
std::vector<Listed> AllListed();

}  // namespace capstan

#endif  // TESTS_INTEGRATION_README_LIST_H_
