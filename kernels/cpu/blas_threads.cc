#include "kernels/cpu/blas_threads.h"

#include <cblas.h>

namespace capstan {

void UseOneBlasThread() { openblas_set_num_threads(1); }

}  // namespace capstan
