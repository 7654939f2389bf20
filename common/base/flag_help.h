#ifndef COMMON_BASE_FLAG_HELP_H_
#define COMMON_BASE_FLAG_HELP_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace capstan {

// One flag in the help of a program.
struct FlagHelp {
  std::string group;  // its heading; empty: none
  std::string usage;  // such as "--listen=HOST:PORT"
  std::string text;   // sentences, the last one with the default
};

// The flags in this order, under their headings, in lines of at most 100 columns. Ends in a
// newline.
std::string FormatFlagHelp(absl::Span<const FlagHelp> flags);

// --flagfile and --help, which every command has.
std::vector<FlagHelp> GeneralFlagHelp(const std::string& group);

// A flag of a *_main.cc. Its help and its default are those of its ABSL_FLAG.
struct ProgramFlag {
  absl::string_view group;
  absl::string_view name;   // without dashes
  absl::string_view value;  // the value's name, with its unit; empty: the flag is a bool
};

// The help on these flags, and on those of every program. Each must be the name of an ABSL_FLAG.
std::string ProgramFlagsHelp(absl::Span<const ProgramFlag> flags);

// True when "--help" or "-h" is among `args`.
bool AsksForHelp(absl::Span<const std::string> args);

}  // namespace capstan

#endif  // COMMON_BASE_FLAG_HELP_H_
