#ifndef TESTS_CUDA_EMULATOR_DEVICE_CODE_H_
#define TESTS_CUDA_EMULATOR_DEVICE_CODE_H_

#include <math.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

// CUDA C++ for an ordinary compiler: the words, vector types, hinted accesses, index variables,
// barrier, shuffles and atomic addition of kernels. Names and meaning are those of the CUDA C++
// Programming Guide.

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
// A thread of this machine runs one block at a time. Shared memory starts as the last block left
// it.
#define __shared__ static thread_local

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  constexpr dim3(unsigned x_size = 1, unsigned y_size = 1, unsigned z_size = 1)
      : x(x_size), y(y_size), z(z_size) {}
  unsigned x, y, z;
};

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) double2 {
  double x, y;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

// exp(x) with an error of up to two units in the last place, which is all that CUDA promises. The
// error depends on the bits of x. Exact for 0 and infinities.
inline float RoughExponential(float x) {
  const double exact = exp(static_cast<double>(x));
  const float nearest = static_cast<float>(exact);
  if (x == 0 || !(nearest >= 0x1p-126f) || !(nearest <= 0x1.fffffep127f)) return nearest;
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  const double unit = static_cast<double>(nextafterf(nearest, HUGE_VALF)) - nearest;
  const double error =
      (static_cast<double>((bits * 2654435761u) >> 30) - 1.5) * unit;  // 1.5 at most
  return static_cast<float>(exact + error);
}
#define expf(x) RoughExponential(x)

// Accesses to what is not needed again soon. The hint is for a GPU's caches.
template <typename T>
T __ldcs(const T* address) {
  return *address;
}
template <typename T>
void __stcs(T* address, T value) {
  *address = value;
}

// The indices of the running thread. BlockRunner sets them.
extern __thread uint3 threadIdx;
extern __thread uint3 blockIdx;
extern __thread uint3 blockDim;
extern __thread uint3 gridDim;
constexpr int warpSize = 32;

namespace capstan {
namespace emulator {

enum class Shuffle { kXor, kDown };

// Waits for all live threads of the block.
void SyncThreads();

// Each kernel with launch bounds begins with them: //kernels/cuda:cuda.bzl puts this there. The
// kernel fails if its blocks have more than `max_threads` threads.
void CheckLaunchBounds(int max_threads, int min_blocks = 1);

// Waits for all live threads of the warp. Returns the bits of the lane at (own lane ^ operand) or
// (own lane + operand). Beyond the warp these are its own bits. If the lane's thread has ended or
// never was, they are all ones.
uint64_t ShuffleBits(Shuffle shuffle, unsigned mask, uint64_t own_bits, unsigned operand);

template <typename T>
T ShuffleValue(Shuffle shuffle, unsigned mask, T value, unsigned operand) {
  static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = ShuffleBits(shuffle, mask, bits, operand);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace emulator
}  // namespace capstan

inline void __syncthreads() { capstan::emulator::SyncThreads(); }

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask) {
  return capstan::emulator::ShuffleValue(capstan::emulator::Shuffle::kXor, mask, value,
                                         static_cast<unsigned>(lane_mask));
}

template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta) {
  return capstan::emulator::ShuffleValue(capstan::emulator::Shuffle::kDown, mask, value, delta);
}

// Returns what was there before. Relaxed, as on a GPU.
inline unsigned atomicAdd(unsigned* address, unsigned value) {
  return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}

#endif  // TESTS_CUDA_EMULATOR_DEVICE_CODE_H_
