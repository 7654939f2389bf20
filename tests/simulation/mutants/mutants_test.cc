// Runs the simulation of each mutant, named on the command line, until it finds the fault.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

namespace capstan {
namespace {

constexpr int kMostSeeds = 2000;

std::vector<std::string> mutants;  // programs

struct Finding {
  int exit_code = 0;
  int seeds = 0;  // that were needed
  std::string rule;
};

Finding RunMutant(const std::string& program) {
  const std::string command =
      program + " --threads=1 --until_violation --seeds=" + std::to_string(kMostSeeds) + " 2>&1";
  FILE* const output = popen(command.c_str(), "r");
  Finding finding;
  char line[4096];
  while (std::fgets(line, sizeof(line), output) != nullptr) {
    const std::string text = line;
    // "seed 7 (ssp(1), ...): rule: what was seen"
    const size_t rule = text.find("): ");
    if (text.rfind("seed ", 0) == 0 && rule != std::string::npos) {
      finding.rule = text.substr(rule + 3, text.find(':', rule + 3) - rule - 3);
    }
    if (text.find(" histories, ") != std::string::npos) finding.seeds = std::stoi(text);
  }
  finding.exit_code = WEXITSTATUS(pclose(output));
  return finding;
}

TEST(MutantsTest, EachFaultIsFoundWithinTwoThousandSeeds) {
  ASSERT_EQ(mutants.size(), 12u);
  std::printf("| %-28s | %5s | %-28s |\n", "mutant", "seeds", "found by");
  for (const std::string& program : mutants) {
    const std::string name = program.substr(program.rfind('/') + 1);
    const Finding finding = RunMutant(program);
    EXPECT_EQ(finding.exit_code, 1) << name << " was not found";
    EXPECT_LE(finding.seeds, kMostSeeds) << name;
    EXPECT_GE(finding.seeds, 1) << name;
    std::printf("| %-28s | %5d | %-28s |\n", name.c_str(), finding.seeds, finding.rule.c_str());
  }
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  capstan::mutants.assign(argv + 1, argv + argc);
  return RUN_ALL_TESTS();
}
