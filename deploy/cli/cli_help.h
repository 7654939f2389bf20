#ifndef DEPLOY_CLI_CLI_HELP_H_
#define DEPLOY_CLI_CLI_HELP_H_

#include <string>

namespace capstan {

// The texts of `capstan help` and of each command's --help.
std::string CapstanHelp();
std::string RunHelp();
std::string AddressHelp();
std::string StatusHelp();
std::string SetHelp();
std::string CheckHelp();
std::string CheckpointHelp();
std::string EvaluateHelp();
std::string ExportHelp();
std::string GetHelp();
std::string JobHelp();
std::string KeysHelp();
std::string ReportHelp();
std::string TopHelp();
std::string TraceHelp();

}  // namespace capstan

#endif  // DEPLOY_CLI_CLI_HELP_H_
