#include "kernels/cpu/cpu_stream.h"
#include "worker/training/mlp_definition.h"

namespace capstan {

template class Mlp<CpuStream>;

}  // namespace capstan
