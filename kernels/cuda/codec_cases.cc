#include "kernels/cuda/codec_cases.h"

#include <glog/logging.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/types/span.h"
#include "common/codec/codec.h"
#include "kernels/cuda/bfloat16_codec.h"
#include "kernels/cuda/int8_codec.h"
#include "kernels/cuda/slice_encoding.h"
#include "kernels/cuda/topk_codec.h"

namespace capstan {
namespace {

constexpr double kTopkRatio = 0.01;
constexpr char kTopkText[] = "topk:0.01:int8";

int64_t TopkCount(int64_t n) {
  return static_cast<int64_t>(std::ceil(kTopkRatio * static_cast<double>(n)));
}

DrawKey BenchmarkKey() {
  DrawKey key;
  key.seed = 1;
  return key;
}

EncodeDraws BenchmarkDraws() {
  const DrawKey key = BenchmarkKey();
  return MakeEncodeDraws(key.seed, key.table, key.worker, key.step, key.first_element);
}

// A codec on both devices, and its cases' figures.
struct Twins {
  std::string text;  // as MakeCodec reads it
  double bytes_per_element;
  double encode_share;
  double slow_float64_encode_share;  // see KernelCase
  double decode_share;
  std::function<size_t(int64_t n)> scratch_bytes;
  std::function<absl::Status(const SliceToEncode&, CudaStream&)> encode;
  std::function<absl::Status(int64_t n, const uint8_t*, float*, CudaStream&)> decode_add;
  double add_bytes_per_element;  // read and written besides the encoded bytes
};

std::vector<Twins> AllTwins() {
  constexpr double kOnePass = 0.75;
  // The values and the residual are read five times.
  constexpr double kFivePasses = 0.2;
  // Six float64 instructions, for two norms, for each 14 bytes.
  constexpr double kTwoNorms = 0.5;
  // Single elements, far apart.
  constexpr double kScattered = 0.25;
  constexpr double kAllElements = 8;
  // Memory moves whole sectors of 32 bytes. Those of two sent elements are seldom the same.
  constexpr double kSectorBytes = 32;
  constexpr double kInt8Bytes = 1 + 4.0 / 256;
  return {
      {"bfloat16", 2, kOnePass, kTwoNorms, kOnePass, EncodeBfloat16ScratchBytes, EncodeBfloat16,
       DecodeAddBfloat16, kAllElements},
      {"int8", kInt8Bytes, kOnePass, kTwoNorms, kOnePass, EncodeInt8ScratchBytes,
       [](const SliceToEncode& slice, CudaStream& stream) {
         return EncodeInt8(slice, BenchmarkDraws(), stream);
       },
       DecodeAddInt8, kAllElements},
      {kTopkText, kTopkRatio * (4 + kInt8Bytes), kFivePasses, kFivePasses, kScattered,
       [](int64_t n) { return EncodeTopkScratchBytes(n, TopkCount(n), TopkValues::kInt8); },
       [](const SliceToEncode& slice, CudaStream& stream) {
         return EncodeTopk(slice, TopkCount(slice.n), TopkValues::kInt8, BenchmarkDraws(), stream);
       },
       [](int64_t n, const uint8_t* bytes, float* sum, CudaStream& stream) {
         return DecodeAddTopk(TopkCount(n), TopkValues::kInt8, bytes, sum, stream);
       },
       kTopkRatio * 2 * kSectorBytes},
  };
}

std::shared_ptr<const Codec> CpuCodec(const std::string& text) {
  auto codec = MakeCodec(text);
  CHECK(codec.ok()) << codec.status();
  return *std::move(codec);
}

// Array 2 has the bytes.
uint8_t* Bytes(const KernelArrays& arrays) { return reinterpret_cast<uint8_t*>(arrays.floats[2]); }

SliceToEncode Slice(int64_t n, const KernelArrays& arrays, float* residual) {
  SliceToEncode slice;
  slice.n = n;
  slice.values = arrays.floats[0];
  slice.residual = residual;
  slice.bytes = Bytes(arrays);
  slice.result = arrays.encoded;
  slice.scratch = arrays.scratch;
  return slice;
}

KernelCase EncodeCase(const Twins& twins) {
  KernelCase result;
  result.name = "encode " + twins.text;
  result.bytes_per_element = 12 + twins.bytes_per_element;
  result.required_share = twins.encode_share;
  result.slow_float64_share = twins.slow_float64_encode_share;
  result.on_cpu = [codec = CpuCodec(twins.text)](int64_t n, const KernelArrays& x, CpuStream&) {
    const size_t size = static_cast<size_t>(n);
    return codec
        ->Encode({x.floats[0], size}, BenchmarkKey(), absl::MakeSpan(x.floats[1], size),
                 absl::MakeSpan(Bytes(x), codec->EncodedBytes(size)))
        .status();
  };
  result.on_gpu = [encode = twins.encode](int64_t n, const KernelArrays& x, CudaStream& stream) {
    return encode(Slice(n, x, x.floats[1]), stream);
  };
  result.scratch_bytes = [bytes = twins.scratch_bytes](int64_t n, const CudaStream&) {
    return bytes(n);
  };
  return result;
}

KernelCase DecodeAddCase(const Twins& twins) {
  KernelCase result;
  result.name = "add " + twins.text;
  result.bytes_per_element = twins.add_bytes_per_element + twins.bytes_per_element;
  result.required_share = twins.decode_share;
  result.prepare = [encode = twins.encode](int64_t n, const KernelArrays& x, CudaStream& stream) {
    return encode(Slice(n, x, /*residual=*/nullptr), stream);
  };
  result.on_cpu = [codec = CpuCodec(twins.text)](int64_t n, const KernelArrays& x, CpuStream&) {
    const size_t size = static_cast<size_t>(n);
    codec->DecodeAdd(absl::MakeConstSpan(Bytes(x), codec->EncodedBytes(size)), size, /*begin=*/0,
                     absl::MakeSpan(x.floats[1], size));
    return absl::OkStatus();
  };
  result.on_gpu = [add = twins.decode_add](int64_t n, const KernelArrays& x, CudaStream& stream) {
    return add(n, Bytes(x), x.floats[1], stream);
  };
  result.scratch_bytes = [bytes = twins.scratch_bytes](int64_t n, const CudaStream&) {
    return bytes(n);
  };
  return result;
}

}  // namespace

std::vector<KernelCase> CodecCases() {
  std::vector<KernelCase> cases;
  for (const Twins& twins : AllTwins()) {
    cases.push_back(EncodeCase(twins));
    cases.push_back(DecodeAddCase(twins));
  }
  return cases;
}

}  // namespace capstan
