#ifndef COMMON_BASE_CPU_NAME_H_
#define COMMON_BASE_CPU_NAME_H_

#include <string>

#include "absl/strings/string_view.h"

namespace capstan {

// The kind of this machine's CPU: "Intel Xeon Gold 6130 @ 2.10GHz, family 6 model 85", or, of ARM,
// "CPU of implementer 0x41, part 0xd0c". Libraries choose their code by it. "unknown CPU" if the
// system does not tell it.
std::string CpuName();

// The same of a text like /proc/cpuinfo.
std::string CpuNameIn(absl::string_view cpuinfo);

}  // namespace capstan

#endif  // COMMON_BASE_CPU_NAME_H_
