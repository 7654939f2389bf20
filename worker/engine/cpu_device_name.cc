#include "worker/engine/cpu_device_name.h"

#include "absl/strings/str_cat.h"
#include "common/base/cpu_name.h"
#include "kernels/gemm.h"

namespace capstan {

std::string CpuDeviceName() { return absl::StrCat("cpu (", CpuName(), ", ", BlasName(), ")"); }

}  // namespace capstan
