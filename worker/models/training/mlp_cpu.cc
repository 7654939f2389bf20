#include "kernels/cpu/cpu_stream.h"
#include "worker/models/training/mlp_definition.h"

namespace capstan {

template class Mlp<CpuStream>;

}  // namespace capstan
