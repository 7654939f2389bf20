#ifndef COMMON_BASE_FLAG_FILE_H_
#define COMMON_BASE_FLAG_FILE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace capstan {

// Replaces each "--flagfile=FILE" or "--flagfile FILE" among `args` by the flags in FILE, in their
// place: if a flag is given twice, the last one wins. What follows "--" stays.
//
// A line of FILE is a flag, a comment that begins with #, or blank. A flag --flagfile in FILE is
// replaced as well. FILE counts from the current folder. INVALID_ARGUMENT names FILE and the line,
// and leaves `args` as they are: a file that ReadInputText refuses, a line that is no flag, files
// that read each other in a circle, more than 64 files, or a file of more than 1 MiB.
absl::Status ExpandFlagFiles(std::vector<std::string>* args);

}  // namespace capstan

#endif  // COMMON_BASE_FLAG_FILE_H_
