#include "kernels/gemm.h"

#include <cblas.h>
#include <sys/mman.h>

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

// Room for OpenBLAS's buffer, and more.
constexpr size_t kBlasMemoryBytes = size_t{256} << 20;

// BLAS refuses a row length of 0, also for an empty matrix.
blasint RowLength(int64_t columns) { return static_cast<blasint>(columns == 0 ? 1 : columns); }

std::vector<float> Widened(int64_t n, const Bfloat16* values) {
  std::vector<float> wide(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) wide[i] = ToFloat32(values[i]);
  return wide;
}

}  // namespace

void UseOneBlasThread() { openblas_set_num_threads(1); }

absl::Status TakeBlasMemory() {
  void* const room = mmap(/*addr=*/nullptr, kBlasMemoryBytes, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, /*offset=*/0);
  if (room == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "expected ", kBlasMemoryBytes >> 20,
        " MiB of address space for OpenBLAS, got less; raise the limit of this process's memory "
        "(ulimit -v)"));
  }
  munmap(room, kBlasMemoryBytes);
  // A product of this size is computed in OpenBLAS's buffer, which it keeps.
  constexpr int kSize = 128;
  const std::vector<float> ones(kSize * kSize, 1);
  std::vector<float> product(kSize * kSize);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, kSize, kSize, kSize, 1, ones.data(), kSize,
              ones.data(), kSize, 0, product.data(), kSize);
  return absl::OkStatus();
}

std::string BlasName() {
  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
  const std::vector<std::string> config =
      absl::StrSplit(openblas_get_config(), absl::MaxSplits(' ', 2));
  const std::string version = config.size() > 1 ? config[1] : "of an unknown version";
  return absl::StrCat("OpenBLAS ", version, " ", openblas_get_corename());
}

absl::Status Gemm(const GemmShape& shape, MatrixPrecision /*precision*/, float alpha,
                  const float* a, const float* b, float beta, float* c, CpuStream& /*stream*/) {
  RETURN_IF_ERROR(CheckGemmShape(shape));
  cblas_sgemm(CblasRowMajor, shape.is_a_transposed ? CblasTrans : CblasNoTrans,
              shape.is_b_transposed ? CblasTrans : CblasNoTrans, static_cast<blasint>(shape.m),
              static_cast<blasint>(shape.n), static_cast<blasint>(shape.k), alpha, a,
              RowLength(shape.is_a_transposed ? shape.m : shape.k), b,
              RowLength(shape.is_b_transposed ? shape.k : shape.n), beta, c, RowLength(shape.n));
  return absl::OkStatus();
}

absl::Status Gemm(const GemmShape& shape, float alpha, const Bfloat16* a, const Bfloat16* b,
                  float beta, float* c, CpuStream& stream) {
  RETURN_IF_ERROR(CheckGemmShape(shape));
  const std::vector<float> wide_a = Widened(shape.m * shape.k, a);
  const std::vector<float> wide_b = Widened(shape.k * shape.n, b);
  return Gemm(shape, MatrixPrecision::kFloat32, alpha, wide_a.data(), wide_b.data(), beta, c,
              stream);
}

}  // namespace capstan
