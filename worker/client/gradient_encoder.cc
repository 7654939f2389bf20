#include "worker/client/gradient_encoder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

absl::StatusOr<std::shared_ptr<HostBuffer>> Allocate(size_t size) {
  absl::StatusOr<HostBuffer> buffer = HostBuffer::Create(size);
  if (!buffer.ok()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("encoded gradients: ", buffer.status().message(),
                     "; use a smaller model, or a machine with more memory"));
  }
  return std::make_shared<HostBuffer>(*std::move(buffer));
}

// Sets the elements to 0 whose indices are the first `k` words of the bytes of a topk.
void ZeroSent(absl::Span<const uint8_t> bytes, size_t k, absl::Span<float> elements) {
  for (size_t j = 0; j < k; ++j) {
    uint32_t index;
    std::memcpy(&index, bytes.data() + j * sizeof(index), sizeof(index));
    elements[index] = 0;
  }
}

// A push with a rate as small, compared with its table's, moves nothing: 0, or what rounding has
// left of 0. It does not take the residual along.
constexpr double kLeastRelativeRate = 0x1p-40;

void Scale(double factor, absl::Span<float> values) {
  if (factor == 1) return;
  for (float& value : values) value *= static_cast<float>(factor);
}

}  // namespace

bool CodecPlan::is_lossy() const {
  return std::any_of(tables.begin(), tables.end(), [](const Table& table) {
    return table.codecs.push->is_lossy() || table.codecs.pull->is_lossy();
  });
}

EncodedSlices::EncodedSlices(const Slicing& slicing, const Codec& codec)
    : EncodedSlices(slicing, slicing.slice_count() == 0
                                 ? 0
                                 : codec.EncodedBytes(slicing.Range(SliceIndex(0)).size)) {}

EncodedSlices::EncodedSlices(const Slicing& slicing, size_t longest_bytes)
    : stride_((longest_bytes + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes),
      slice_count_(slicing.slice_count()) {}

double CodecPlan::ClipNorm(const Dgc& dgc) const {
  return dgc.clip_norm / std::sqrt(static_cast<double>(workers));
}

absl::StatusOr<std::unique_ptr<HostEncoder>> HostEncoder::Create(CodecPlan plan) {
  std::unique_ptr<HostEncoder> encoder(new HostEncoder(std::move(plan)));
  for (const CodecPlan::Table& planned : encoder->plan().tables) {
    Table& table = encoder->tables_.emplace_back();
    if (planned.codecs.dgc.has_value()) {
      ASSIGN_OR_RETURN(table.momentum, Allocate(planned.slicing.elements()));
    }
    if (!planned.codecs.push->is_lossy()) continue;
    ASSIGN_OR_RETURN(table.residual, Allocate(planned.slicing.elements()));
    const size_t bytes = EncodedSlices(planned.slicing, planned.codecs.LongestPush()).size_bytes();
    ASSIGN_OR_RETURN(table.encoded, Allocate(bytes / sizeof(float)));
  }
  return encoder;
}

void HostEncoder::BeginTable(TableId id, absl::Span<const float> gradient,
                             std::optional<double> learning_rate) {
  const std::optional<Dgc>& dgc = CodecsOf(id).dgc;
  Table& table = tables_[id.value()];
  const double own_rate = plan().tables[id.value()].learning_rate;
  table.relative_rate = learning_rate.value_or(own_rate) / own_rate;
  table.clip_factor = 1;
  if (!dgc.has_value() || dgc->clip_norm == 0) return;
  double squares = 0;
  for (const float value : gradient) squares += static_cast<double>(value) * value;
  const double norm = std::sqrt(squares);
  const double most = plan().ClipNorm(*dgc);
  if (norm > most) table.clip_factor = static_cast<float>(most / norm);
}

// u = m u + c g, each operation rounded to float32.
void HostEncoder::AddMomentum(SliceKey key, absl::Span<const float> gradient,
                              absl::Span<float> momentum) {
  const auto factor = static_cast<float>(CodecsOf(key.table).dgc->momentum);
  const float clip = tables_[key.table.value()].clip_factor;
  for (size_t i = 0; i < momentum.size(); ++i) {
    momentum[i] = factor * momentum[i] + clip * gradient[i];
  }
}

absl::StatusOr<GradientEncoder::Encoded> HostEncoder::Encode(SliceKey key, Step step,
                                                             absl::Span<const float> gradient) {
  const Table& table = tables_[key.table.value()];
  const absl::Span<float> momentum = PartOf(key, table.momentum);
  if (!momentum.empty()) {
    AddMomentum(key, gradient, momentum);
    gradient = momentum;
  }
  if (table.residual == nullptr) return Encoded{Payload(gradient, table.momentum), {}};
  ASSIGN_OR_RETURN(Encoded encoded, EncodeLossy(key, step, gradient));
  if (!momentum.empty() && IsTopk(type(key.table))) {
    ZeroSent(encoded.bytes.piece(), codec(key.table, step).SentCount(momentum.size()), momentum);
  }
  return encoded;
}

absl::StatusOr<GradientEncoder::Encoded> HostEncoder::EncodeLossy(SliceKey key, Step step,
                                                                  absl::Span<const float> values) {
  const Table& table = tables_[key.table.value()];
  const Codec& push = codec(key.table, step);
  const EncodedSlices places(plan().tables[key.table.value()].slicing, push);
  const absl::Span<uint8_t> bytes =
      table.encoded->bytes().subspan(places.offset(key.slice), push.EncodedBytes(values.size()));
  absl::Span<float> residual = PartOf(key, table.residual);
  if (table.relative_rate < kLeastRelativeRate) residual = {};
  Scale(1 / table.relative_rate, residual);
  Encoded encoded;
  ASSIGN_OR_RETURN(encoded.norms, push.Encode(values, plan().DrawsOf(key, step), residual, bytes));
  Scale(table.relative_rate, residual);
  encoded.bytes = Payload(table.encoded);
  encoded.bytes.Append(bytes);
  return encoded;
}

absl::Span<float> HostEncoder::PartOf(SliceKey key,
                                      const std::shared_ptr<HostBuffer>& array) const {
  if (array == nullptr) return {};
  const SliceRange range = plan().tables[key.table.value()].slicing.Range(key.slice);
  return array->span().subspan(range.offset, range.size);
}

absl::StatusOr<Payload> HostEncoder::SaveState(SliceKey key) {
  const Table& table = tables_[key.table.value()];
  const auto owners = std::make_shared<std::array<std::shared_ptr<HostBuffer>, 2>>(
      std::array<std::shared_ptr<HostBuffer>, 2>{table.residual, table.momentum});
  Payload arrays(owners);
  for (const std::shared_ptr<HostBuffer>& owner : *owners) {
    const absl::Span<const float> part = PartOf(key, owner);
    arrays.Append({reinterpret_cast<const uint8_t*>(part.data()), part.size() * sizeof(float)});
  }
  return arrays;
}

absl::Status HostEncoder::LoadState(SliceKey key, absl::Span<const float> arrays) {
  const Table& table = tables_[key.table.value()];
  for (const std::shared_ptr<HostBuffer>& owner : {table.residual, table.momentum}) {
    const absl::Span<float> part = PartOf(key, owner);
    std::copy(arrays.begin(), arrays.begin() + static_cast<int64_t>(part.size()), part.begin());
    arrays.remove_prefix(part.size());
  }
  return absl::OkStatus();
}

}  // namespace capstan
