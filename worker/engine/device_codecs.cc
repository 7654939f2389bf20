#include "worker/engine/device_codecs.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"
#include "common/tensor/memory_cutter.h"
#include "kernels/cuda/bfloat16_codec.h"
#include "kernels/cuda/int8_codec.h"
#include "kernels/cuda/topk_codec.h"

namespace capstan {
namespace {

// The type of the selected values of a topk codec.
TopkValues TopkValuesOf(CodecType type) {
  if (type == CodecType::kTopkBfloat16) return TopkValues::kBfloat16;
  return type == CodecType::kTopkInt8 ? TopkValues::kInt8 : TopkValues::kFloat32;
}

size_t ScratchBytes(const Codec& codec, int64_t n) {
  switch (codec.type()) {
    case CodecType::kFloat32:
      return 0;
    case CodecType::kBfloat16:
      return EncodeBfloat16ScratchBytes(n);
    case CodecType::kInt8:
      return EncodeInt8ScratchBytes(n);
    case CodecType::kTopkFloat32:
    case CodecType::kTopkBfloat16:
    case CodecType::kTopkInt8:
      return EncodeTopkScratchBytes(n, static_cast<int64_t>(codec.SentCount(n)),
                                    TopkValuesOf(codec.type()));
  }
  return 0;
}

size_t LargestScratch(const CodecPlan::Table& table) {
  if (table.slicing.slice_count() == 0) return 0;
  const SliceIndex last(table.slicing.slice_count() - 1);
  const Codec& codec = *table.codecs.push;
  return std::max(
      ScratchBytes(codec, static_cast<int64_t>(table.slicing.Range(SliceIndex(0)).size)),
      ScratchBytes(codec, static_cast<int64_t>(table.slicing.Range(last).size)));
}

// Sizes in bytes of the parts of one table's memory.
struct Sizes {
  explicit Sizes(const CodecPlan::Table& table) {
    if (table.codecs.push->is_lossy()) {
      residual = table.slicing.elements() * sizeof(float);
      encoded = EncodedSlices(table.slicing, *table.codecs.push).size_bytes();
      results = table.slicing.slice_count() * sizeof(EncodeResult);
    }
    if (table.codecs.pull->is_lossy()) {
      values = EncodedSlices(table.slicing, *table.codecs.pull).size_bytes();
    }
  }
  size_t residual = 0;
  size_t encoded = 0;
  size_t results = 0;
  size_t values = 0;
};

// Null for no bytes.
template <typename T>
absl::StatusOr<T*> TakePinned(PinnedPool& pool, size_t bytes) {
  if (bytes == 0) return nullptr;
  ASSIGN_OR_RETURN(void* const memory, pool.Take(bytes));
  return static_cast<T*>(memory);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceCodecs>> DeviceCodecs::Create(
    std::shared_ptr<const CudaDevice> device, const CodecPlan& plan) {
  std::unique_ptr<DeviceCodecs> codecs(new DeviceCodecs(std::move(device), plan));
  RETURN_IF_ERROR(codecs->Allocate());
  MutexLock lock(&codecs->mu_);
  ASSIGN_OR_RETURN(codecs->copies_, CudaStream::Create(*codecs->device_, CudaStream::Blas::kNone));
  // The residuals are zero at first.
  RETURN_IF_ERROR(
      codecs->copies_->SetBytes(0, codecs->memory_.size_bytes(), codecs->memory_.data<void>()));
  RETURN_IF_ERROR(codecs->copies_->Synchronize());
  return codecs;
}

absl::Status DeviceCodecs::Allocate() {
  size_t on_device = 0, pinned = 0, scratch = 0;
  for (const CodecPlan::Table& table : plan_.tables) {
    const Sizes sizes(table);
    for (const size_t bytes : {sizes.residual, sizes.encoded, sizes.results, sizes.values}) {
      on_device += MemoryCutter::RoundUp(bytes);
      pinned += PinnedPool::RoundUp(bytes);
    }
    if (sizes.residual > 0) scratch = std::max(scratch, LargestScratch(table));
  }
  on_device += MemoryCutter::RoundUp(scratch);
  ASSIGN_OR_RETURN(memory_, DeviceBuffer::Allocate(*device_, std::max<size_t>(on_device, 1),
                                                   "residuals and encoded gradients"));
  ASSIGN_OR_RETURN(auto pool, PinnedPool::Create(*device_, std::max<size_t>(pinned, 1)));
  pinned_ = std::make_shared<Pinned>(Pinned{device_, std::move(pool)});
  MemoryCutter cutter(memory_.data<void>());
  scratch_ = cutter.Take<char>(static_cast<int64_t>(scratch));
  for (const CodecPlan::Table& planned : plan_.tables) {
    const Sizes sizes(planned);
    Table& table = tables_.emplace_back();
    table.residual = cutter.Take<float>(static_cast<int64_t>(sizes.residual / sizeof(float)));
    table.encoded = cutter.Take<uint8_t>(static_cast<int64_t>(sizes.encoded));
    table.results =
        cutter.Take<EncodeResult>(static_cast<int64_t>(sizes.results / sizeof(EncodeResult)));
    table.values = cutter.Take<uint8_t>(static_cast<int64_t>(sizes.values));
    ASSIGN_OR_RETURN(table.host_residual, TakePinned<float>(*pinned_->pool, sizes.residual));
    ASSIGN_OR_RETURN(table.host_encoded, TakePinned<uint8_t>(*pinned_->pool, sizes.encoded));
    ASSIGN_OR_RETURN(table.host_results, TakePinned<EncodeResult>(*pinned_->pool, sizes.results));
    ASSIGN_OR_RETURN(table.host_values, TakePinned<uint8_t>(*pinned_->pool, sizes.values));
  }
  return absl::OkStatus();
}

absl::Status DeviceCodecs::QueueEncode(TableId table, Step step, absl::Span<const float> gradient,
                                       CudaStream& stream) {
  const Slicing& slicing = planned(table).slicing;
  const EncodedSlices places(slicing, *codecs_of(table).push);
  const Table& memory = tables_[table.value()];
  for (uint32_t i = 0; i < slicing.slice_count(); ++i) {
    const SliceRange range = slicing.Range(SliceIndex(i));
    SliceToEncode slice;
    slice.n = static_cast<int64_t>(range.size);
    slice.values = gradient.data() + range.offset;
    slice.residual = memory.residual + range.offset;
    slice.bytes = memory.encoded + places.offset(SliceIndex(i));
    slice.result = memory.results + i;
    slice.scratch = scratch_;
    RETURN_IF_ERROR(QueueSlice({table, SliceIndex(i)}, step, slice, stream));
  }
  RETURN_IF_ERROR(stream.CopyToHost(memory.encoded, places.size_bytes(), memory.host_encoded));
  return stream.CopyToHost(memory.results, slicing.slice_count() * sizeof(EncodeResult),
                           memory.host_results);
}

absl::Status DeviceCodecs::QueueSlice(SliceKey key, Step step, const SliceToEncode& slice,
                                      CudaStream& stream) {
  const Codec& codec = *codecs_of(key.table).push;
  const EncodeDraws draws =
      MakeEncodeDraws(plan_.draws.seed, key.table, plan_.draws.worker, step, key.slice);
  switch (codec.type()) {
    case CodecType::kFloat32:
      break;
    case CodecType::kBfloat16:
      return EncodeBfloat16(slice, stream);
    case CodecType::kInt8:
      return EncodeInt8(slice, draws, stream);
    case CodecType::kTopkFloat32:
    case CodecType::kTopkBfloat16:
    case CodecType::kTopkInt8:
      return EncodeTopk(slice, static_cast<int64_t>(codec.SentCount(slice.n)),
                        TopkValuesOf(codec.type()), draws, stream);
  }
  LOG(FATAL) << "no device encodes " << codec.name();
}

absl::StatusOr<GradientEncoder::Encoded> DeviceCodecs::Encoded(SliceKey key) const {
  const CodecPlan::Table& planned_table = planned(key.table);
  const Codec& codec = *planned_table.codecs.push;
  const EncodedSlices places(planned_table.slicing, codec);
  const Table& memory = tables_[key.table.value()];
  const EncodeResult& result = memory.host_results[key.slice.value()];
  if (result.non_finite > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected finite numbers, but of the gradient, or of its sum with the "
                     "residual, ",
                     result.non_finite, " are a NaN or an infinity"));
  }
  GradientEncoder::Encoded encoded;
  encoded.norms = {result.gradient_sum_of_squares, result.residual_sum_of_squares};
  encoded.bytes = Payload(pinned_);
  encoded.bytes.Append({memory.host_encoded + places.offset(key.slice),
                        codec.EncodedBytes(planned_table.slicing.Range(key.slice).size)});
  return encoded;
}

absl::Span<uint8_t> DeviceCodecs::EncodedValuesOf(SliceKey key) const {
  const CodecPlan::Table& table = planned(key.table);
  const EncodedSlices places(table.slicing, *table.codecs.pull);
  return {tables_[key.table.value()].host_values + places.offset(key.slice),
          table.codecs.pull->EncodedBytes(table.slicing.Range(key.slice).size)};
}

absl::Status DeviceCodecs::QueueDecode(SliceKey key, absl::Span<float> values, CudaStream& stream) {
  const Codec& codec = *codecs_of(key.table).pull;
  const EncodedSlices places(planned(key.table).slicing, codec);
  uint8_t* const encoded = tables_[key.table.value()].values + places.offset(key.slice);
  const absl::Span<const uint8_t> bytes = EncodedValuesOf(key);
  RETURN_IF_ERROR(stream.CopyToDevice(bytes.data(), bytes.size(), encoded));
  const SliceRange range = planned(key.table).slicing.Range(key.slice);
  const auto n = static_cast<int64_t>(range.size);
  float* const decoded = values.data() + range.offset;
  if (codec.type() == CodecType::kInt8) return DecodeInt8(n, encoded, decoded, stream);
  CHECK(codec.type() == CodecType::kBfloat16) << "no device decodes " << codec.name();
  return DecodeBfloat16(n, encoded, decoded, stream);
}

absl::Span<float> DeviceCodecs::ResidualOf(SliceKey key, float* table) const {
  const SliceRange range = planned(key.table).slicing.Range(key.slice);
  return {table + range.offset, range.size};
}

absl::StatusOr<Payload> DeviceCodecs::SaveResidual(SliceKey key) {
  const Table& memory = tables_[key.table.value()];
  const absl::Span<float> residual = ResidualOf(key, memory.residual);
  const absl::Span<float> host = ResidualOf(key, memory.host_residual);
  MutexLock lock(&mu_);
  RETURN_IF_ERROR(
      copies_->CopyToHost(residual.data(), residual.size() * sizeof(float), host.data()));
  RETURN_IF_ERROR(copies_->Synchronize());
  return Payload(host, pinned_);
}

absl::Status DeviceCodecs::LoadResidual(SliceKey key, absl::Span<const float> residual) {
  const Table& memory = tables_[key.table.value()];
  const absl::Span<float> host = ResidualOf(key, memory.host_residual);
  std::copy(residual.begin(), residual.end(), host.begin());
  MutexLock lock(&mu_);
  RETURN_IF_ERROR(copies_->CopyToDevice(host.data(), host.size() * sizeof(float),
                                        ResidualOf(key, memory.residual).data()));
  return copies_->Synchronize();
}

}  // namespace capstan
