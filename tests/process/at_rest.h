#ifndef TESTS_PROCESS_AT_REST_H_
#define TESTS_PROCESS_AT_REST_H_

#include <sys/types.h>

#include <vector>

namespace capstan {

// Whether there was a moment during the call at which every thread of these processes slept.
// Processes that wait for each other are then done with what they were told. False also if one of
// the processes has ended.
bool WereAtRest(const std::vector<pid_t>& processes);

}  // namespace capstan

#endif  // TESTS_PROCESS_AT_REST_H_
