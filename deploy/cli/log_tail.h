#ifndef DEPLOY_CLI_LOG_TAIL_H_
#define DEPLOY_CLI_LOG_TAIL_H_

#include <string>

namespace capstan {

// The line of a log that says why its process ended: the last one that is neither glog's INFO or
// WARNING nor part of a stack trace, without glog's prefix. Looks at the last 64 KiB. "no error in
// its log" when there is no such line.
std::string LastErrorLine(const std::string& log_path);

}  // namespace capstan

#endif  // DEPLOY_CLI_LOG_TAIL_H_
