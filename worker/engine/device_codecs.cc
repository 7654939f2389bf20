#include "worker/engine/device_codecs.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"
#include "common/codec/changed_values.h"
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
    case CodecType::kChanged:
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

bool IsClipped(const CodecPlan::Table& table) {
  return table.codecs.dgc.has_value() && table.codecs.dgc->clip_norm > 0;
}

size_t LargestScratch(const CodecPlan::Table& table, const CudaStream& stream) {
  if (table.slicing.slice_count() == 0) return 0;
  size_t largest = 0;
  if (IsClipped(table)) {
    largest = SumOfSquaresScratchBytes(static_cast<int64_t>(table.slicing.elements()), stream);
  }
  for (const uint32_t slice : {uint32_t{0}, table.slicing.slice_count() - 1}) {
    const auto n = static_cast<int64_t>(table.slicing.Range(SliceIndex(slice)).size);
    largest = std::max(largest, ScratchBytes(*table.codecs.push, n));
    largest = std::max(largest, ScratchBytes(table.codecs.LongestPush(), n));
  }
  return largest;
}

// Where encoded values lie. A pull of a topk can also get changed elements.
EncodedSlices PulledSlices(const CodecPlan::Table& table) {
  const Codec& codec = *table.codecs.pull;
  if (!IsTopk(codec.type()) || table.slicing.slice_count() == 0) {
    return EncodedSlices(table.slicing, codec);
  }
  const size_t longest = table.slicing.Range(SliceIndex(0)).size;
  return EncodedSlices(table.slicing,
                       std::max(codec.EncodedBytes(longest), MostChangedBytes(codec, longest)));
}

// Sizes in bytes of the parts of one table's memory.
struct Sizes {
  explicit Sizes(const CodecPlan::Table& table) {
    if (table.codecs.push->is_lossy()) {
      array = table.slicing.elements() * sizeof(float);
      state = PushArrays(table.codecs) * array;
      encoded = EncodedSlices(table.slicing, table.codecs.LongestPush()).size_bytes();
      norm = IsClipped(table) ? sizeof(NormResult) : 0;
      results = table.slicing.slice_count() * sizeof(EncodeResult);
    }
    if (table.codecs.pull->is_lossy()) {
      values = PulledSlices(table).size_bytes();
    }
  }
  size_t array = 0;  // one of `state`
  size_t state = 0;
  size_t norm = 0;
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
  MutexLock lock(&codecs->mu_);
  ASSIGN_OR_RETURN(codecs->copies_, CudaStream::Create(*codecs->device_, CudaStream::Blas::kNone));
  RETURN_IF_ERROR(codecs->Allocate(*codecs->copies_));
  // The residuals are zero at first.
  RETURN_IF_ERROR(
      codecs->copies_->SetBytes(0, codecs->memory_.size_bytes(), codecs->memory_.data<void>()));
  RETURN_IF_ERROR(codecs->copies_->Synchronize());
  return codecs;
}

absl::Status DeviceCodecs::Allocate(const CudaStream& stream) {
  size_t on_device = 0, pinned = 0, scratch = 0;
  for (const CodecPlan::Table& table : plan_.tables) {
    const Sizes sizes(table);
    for (const size_t bytes : {sizes.state, sizes.encoded, sizes.results, sizes.values}) {
      on_device += MemoryCutter::RoundUp(bytes);
      pinned += PinnedPool::RoundUp(bytes);
    }
    on_device += MemoryCutter::RoundUp(sizes.norm);
    if (sizes.state > 0) scratch = std::max(scratch, LargestScratch(table, stream));
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
    table.residual = cutter.Take<float>(static_cast<int64_t>(sizes.state / sizeof(float)));
    if (sizes.state > sizes.array) table.momentum = table.residual + planned.slicing.elements();
    if (sizes.norm > 0) table.norm = cutter.Take<NormResult>(1);
    table.encoded = cutter.Take<uint8_t>(static_cast<int64_t>(sizes.encoded));
    table.results =
        cutter.Take<EncodeResult>(static_cast<int64_t>(sizes.results / sizeof(EncodeResult)));
    table.values = cutter.Take<uint8_t>(static_cast<int64_t>(sizes.values));
    ASSIGN_OR_RETURN(table.host_state, TakePinned<float>(*pinned_->pool, sizes.state));
    ASSIGN_OR_RETURN(table.host_encoded, TakePinned<uint8_t>(*pinned_->pool, sizes.encoded));
    ASSIGN_OR_RETURN(table.host_results, TakePinned<EncodeResult>(*pinned_->pool, sizes.results));
    ASSIGN_OR_RETURN(table.host_values, TakePinned<uint8_t>(*pinned_->pool, sizes.values));
  }
  return absl::OkStatus();
}

absl::Status DeviceCodecs::QueueEncode(TableId table, Step step, absl::Span<const float> gradient,
                                       CudaStream& stream) {
  const Slicing& slicing = planned(table).slicing;
  const EncodedSlices places(slicing, codecs_of(table).PushAt(step));
  const Table& memory = tables_[table.value()];
  ASSIGN_OR_RETURN(const float* const values, QueueMomentum(table, gradient, stream));
  for (uint32_t i = 0; i < slicing.slice_count(); ++i) {
    const SliceRange range = slicing.Range(SliceIndex(i));
    SliceToEncode slice;
    slice.n = static_cast<int64_t>(range.size);
    slice.values = values + range.offset;
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

absl::StatusOr<const float*> DeviceCodecs::QueueMomentum(TableId table,
                                                         absl::Span<const float> gradient,
                                                         CudaStream& stream) {
  const Table& memory = tables_[table.value()];
  if (memory.momentum == nullptr) return gradient.data();
  const auto n = static_cast<int64_t>(gradient.size());
  const Dgc& dgc = *codecs_of(table).dgc;
  if (memory.norm != nullptr) {
    RETURN_IF_ERROR(SumOfSquares(n, gradient.data(), memory.norm, scratch_, stream));
  }
  RETURN_IF_ERROR(AddMomentum(n, static_cast<float>(dgc.momentum), memory.norm, plan_.ClipNorm(dgc),
                              gradient.data(), memory.momentum, stream));
  return memory.momentum;
}

absl::Status DeviceCodecs::QueueSlice(SliceKey key, Step step, const SliceToEncode& slice,
                                      CudaStream& stream) {
  const Codec& codec = codecs_of(key.table).PushAt(step);
  const size_t offset = planned(key.table).slicing.Range(key.slice).offset;
  const EncodeDraws draws =
      MakeEncodeDraws(plan_.draws.seed, key.table, plan_.draws.worker, step, offset);
  switch (codec.type()) {
    case CodecType::kFloat32:
    case CodecType::kChanged:
      break;
    case CodecType::kBfloat16:
      return EncodeBfloat16(slice, stream);
    case CodecType::kInt8:
      return EncodeInt8(slice, draws, stream);
    case CodecType::kTopkFloat32:
    case CodecType::kTopkBfloat16:
    case CodecType::kTopkInt8: {
      const auto k = static_cast<int64_t>(codec.SentCount(slice.n));
      RETURN_IF_ERROR(EncodeTopk(slice, k, TopkValuesOf(codec.type()), draws, stream));
      float* const momentum = tables_[key.table.value()].momentum;
      if (momentum == nullptr) return absl::OkStatus();
      return ZeroSent(k, slice.bytes, momentum + offset, stream);
    }
  }
  LOG(FATAL) << "no device encodes " << codec.name();
}

absl::StatusOr<GradientEncoder::Encoded> DeviceCodecs::Encoded(SliceKey key, Step step) const {
  const CodecPlan::Table& planned_table = planned(key.table);
  const Codec& codec = planned_table.codecs.PushAt(step);
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

absl::Span<const uint8_t> DeviceCodecs::PinValues(SliceKey key, const Payload& bytes) const {
  const CodecPlan::Table& table = planned(key.table);
  const size_t offset = PulledSlices(table).offset(key.slice);
  const absl::Span<uint8_t> place(tables_[key.table.value()].host_values + offset,
                                  bytes.size_bytes());
  bytes.CopyTo(place);
  return place;
}

absl::Status DeviceCodecs::QueueDecode(SliceKey key, CodecType type,
                                       absl::Span<const uint8_t> pinned, absl::Span<float> values,
                                       CudaStream& stream) {
  const CodecPlan::Table& table = planned(key.table);
  uint8_t* const encoded =
      tables_[key.table.value()].values + PulledSlices(table).offset(key.slice);
  RETURN_IF_ERROR(stream.CopyToDevice(pinned.data(), pinned.size(), encoded));
  const SliceRange range = table.slicing.Range(key.slice);
  const auto n = static_cast<int64_t>(range.size);
  float* const decoded = values.data() + range.offset;
  switch (type) {
    case CodecType::kFloat32:
      break;
    case CodecType::kBfloat16:
      return DecodeBfloat16(n, encoded, decoded, stream);
    case CodecType::kInt8:
      return DecodeInt8(n, encoded, decoded, stream);
    case CodecType::kTopkFloat32:
    case CodecType::kTopkBfloat16:
    case CodecType::kTopkInt8:
      return DecodeAddTopk(static_cast<int64_t>(table.codecs.pull->SentCount(range.size)),
                           TopkValuesOf(type), encoded, decoded, stream);
    case CodecType::kChanged:
      return ReplaceElements(static_cast<int64_t>(pinned.size() / ChangedBytes(1)), encoded,
                             decoded, stream);
  }
  LOG(FATAL) << "no device decodes codec " << static_cast<int>(type);
}

DeviceCodecs::Parts DeviceCodecs::StateOf(SliceKey key) const {
  const Table& memory = tables_[key.table.value()];
  const SliceRange range = planned(key.table).slicing.Range(key.slice);
  Parts parts = {{memory.residual + range.offset, range.size}};
  if (memory.momentum != nullptr) parts.push_back({memory.momentum + range.offset, range.size});
  return parts;
}

DeviceCodecs::Parts DeviceCodecs::HostStateOf(SliceKey key) const {
  const Slicing& slicing = planned(key.table).slicing;
  const SliceRange range = slicing.Range(key.slice);
  float* array = tables_[key.table.value()].host_state;
  Parts parts;
  for (uint32_t i = 0; i < PushArrays(codecs_of(key.table)); ++i, array += slicing.elements()) {
    parts.push_back({array + range.offset, range.size});
  }
  return parts;
}

absl::StatusOr<Payload> DeviceCodecs::SaveState(SliceKey key) {
  const Parts parts = StateOf(key), host = HostStateOf(key);
  Payload arrays(pinned_);
  MutexLock lock(&mu_);
  for (size_t i = 0; i < parts.size(); ++i) {
    const size_t bytes = parts[i].size() * sizeof(float);
    RETURN_IF_ERROR(copies_->CopyToHost(parts[i].data(), bytes, host[i].data()));
    arrays.Append({reinterpret_cast<const uint8_t*>(host[i].data()), bytes});
  }
  RETURN_IF_ERROR(copies_->Synchronize());
  return arrays;
}

absl::Status DeviceCodecs::LoadState(SliceKey key, absl::Span<const float> arrays) {
  const Parts parts = StateOf(key), host = HostStateOf(key);
  MutexLock lock(&mu_);
  for (size_t i = 0; i < parts.size(); ++i) {
    const absl::Span<const float> array = arrays.subspan(i * parts[i].size(), parts[i].size());
    std::copy(array.begin(), array.end(), host[i].begin());
    RETURN_IF_ERROR(
        copies_->CopyToDevice(host[i].data(), array.size() * sizeof(float), parts[i].data()));
  }
  return copies_->Synchronize();
}

absl::StatusOr<std::unique_ptr<DeviceEncoder>> DeviceEncoder::Create(CodecPlan plan,
                                                                     DeviceCodecs* codecs) {
  CodecPlan of_host = plan;
  for (size_t i = 0; i < of_host.tables.size(); ++i) {
    // Without arrays: the host has nothing to do with it.
    const bool is_of_device = codecs->encodes(TableId(static_cast<uint32_t>(i)));
    if (is_of_device) of_host.tables[i].codecs = TableCodecs();
  }
  ASSIGN_OR_RETURN(std::unique_ptr<HostEncoder> on_host, HostEncoder::Create(std::move(of_host)));
  return std::unique_ptr<DeviceEncoder>(
      new DeviceEncoder(std::move(plan), codecs, std::move(on_host)));
}

void DeviceEncoder::BeginTable(TableId table, absl::Span<const float> gradient,
                               std::optional<double> learning_rate) {
  CHECK(!learning_rate.has_value()) << "a device's pushes have the rate of the optimizer";
  if (!codecs_->encodes(table)) on_host_->BeginTable(table, gradient, learning_rate);
}

absl::StatusOr<GradientEncoder::Encoded> DeviceEncoder::Encode(SliceKey key, Step step,
                                                               absl::Span<const float> gradient) {
  if (codecs_->encodes(key.table)) return codecs_->Encoded(key, step);
  return on_host_->Encode(key, step, gradient);
}

absl::StatusOr<Payload> DeviceEncoder::SaveState(SliceKey key) {
  return codecs_->encodes(key.table) ? codecs_->SaveState(key) : on_host_->SaveState(key);
}

absl::Status DeviceEncoder::LoadState(SliceKey key, absl::Span<const float> arrays) {
  if (codecs_->encodes(key.table)) return codecs_->LoadState(key, arrays);
  return on_host_->LoadState(key, arrays);
}

}  // namespace capstan
