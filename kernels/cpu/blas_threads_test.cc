#include "kernels/cpu/blas_threads.h"

#include <cblas.h>
#include <gtest/gtest.h>

namespace capstan {
namespace {

TEST(BlasThreadsTest, OneThreadIsLeft) {
  UseOneBlasThread();
  EXPECT_EQ(openblas_get_num_threads(), 1);
}

}  // namespace
}  // namespace capstan
