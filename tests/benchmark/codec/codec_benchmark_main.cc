// codec_benchmark: how long codecs take to encode and decode, in copies of the same array.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/program.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/codec/codec.h"

ABSL_FLAG(uint64_t, elements, 25'000'000, "float32 values, normally distributed");
ABSL_FLAG(std::vector<std::string>, codecs,
          std::vector<std::string>({"int8", "bfloat16", "topk:0.01"}),
          "comma-separated; codecs topk are given a residual to encode, others none");
ABSL_FLAG(int, repetitions, 9, "measurements of each operation; their medians are printed");
ABSL_FLAG(bool, json, false, "print one JSON object a line for each operation");

namespace capstan {
namespace {

using Values = std::vector<float>;

// A codec with its buffers, and the times of its operations.
class CodecLoad {
 public:
  CodecLoad(std::shared_ptr<const Codec> codec, const Values& values)
      : codec_(std::move(codec)), values_(values), bytes_(codec_->EncodedBytes(values.size())) {
    if (IsTopk(codec_->type())) residual_.resize(values.size());
  }

  const Codec& codec() const { return *codec_; }

  // The encoded values decode to what the residual says that they lack.
  absl::Status CheckResult() {
    Values residual(codec_->is_lossy() ? values_.size() : 0);
    ASSIGN_OR_RETURN(const Codec::Norms norms, Encode(absl::MakeSpan(residual)));
    RETURN_IF_ERROR(codec_->Check(bytes_, values_.size()));
    Values decoded(values_.size()), sum(values_.size());
    codec_->Decode(bytes_, values_.size(), /*begin=*/0, absl::MakeSpan(decoded));
    codec_->DecodeAdd(bytes_, values_.size(), /*begin=*/0, absl::MakeSpan(sum));
    residual.resize(values_.size());
    for (size_t i = 0; i < values_.size(); ++i) {
      if (values_[i] - decoded[i] == residual[i] && sum[i] == decoded[i]) continue;
      return absl::InternalError(absl::StrCat(codec_->name(), ": element ", i, " is ", values_[i],
                                              ", decoded ", decoded[i], " and ", sum[i],
                                              ", residual ", residual[i]));
    }
    if (norms.residual <= norms.gradient) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(codec_->name(), ": the residual exceeds the values"));
  }

  absl::Status Encode() { return Encode(absl::MakeSpan(residual_)).status(); }

  void DecodeAdd(Values& sum) const {
    codec_->DecodeAdd(bytes_, sum.size(), /*begin=*/0, absl::MakeSpan(sum));
  }

  std::vector<double> encode_ms;
  std::vector<double> decode_ms;

 private:
  absl::StatusOr<Codec::Norms> Encode(absl::Span<float> residual) {
    return codec_->Encode(values_, DrawKey(), residual, absl::MakeSpan(bytes_));
  }

  const std::shared_ptr<const Codec> codec_;
  const Values& values_;
  std::vector<uint8_t> bytes_;
  Values residual_;  // empty for none
};

double Milliseconds(const std::function<void()>& work) {
  const absl::Time begin = absl::Now();
  work();
  return absl::ToDoubleMilliseconds(absl::Now() - begin);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Print(const std::string& codec, const std::string& operation, double ms, double memcpy_ms) {
  if (!absl::GetFlag(FLAGS_json)) {
    std::cout << absl::StrFormat("%-20s %-20s %10.3f %10.2f\n", codec, operation, ms,
                                 ms / memcpy_ms);
    return;
  }
  nlohmann::ordered_json line;
  line["codec"] = codec;
  line["operation"] = operation;
  line["ms"] = ms;
  line["times_of_memcpy"] = ms / memcpy_ms;
  std::cout << line.dump() << "\n";
}

// Each repetition measures the copy and every operation once, in turn.
absl::Status Measure(std::vector<CodecLoad>& loads, const Values& values) {
  Values copy(values.size());
  Values sum(values.size());
  std::vector<double> memcpy_ms;
  absl::Status status;
  for (int i = 0; i < absl::GetFlag(FLAGS_repetitions); ++i) {
    for (CodecLoad& load : loads) {
      memcpy_ms.push_back(Milliseconds(
          [&] { std::memcpy(copy.data(), values.data(), values.size() * sizeof(float)); }));
      load.encode_ms.push_back(Milliseconds([&] { status.Update(load.Encode()); }));
      load.decode_ms.push_back(Milliseconds([&] { load.DecodeAdd(sum); }));
    }
  }
  RETURN_IF_ERROR(status);
  if (copy != values) return absl::InternalError("the copy differs");
  const double copy_ms = Median(memcpy_ms);
  if (!absl::GetFlag(FLAGS_json)) {
    std::cout << absl::StrFormat("%d values; a copy of them takes %.3f ms\n", values.size(),
                                 copy_ms);
    std::cout << absl::StrFormat("%-20s %-20s %10s %10s\n", "codec", "operation", "ms", "copies");
  }
  for (const CodecLoad& load : loads) {
    Print(load.codec().name(), "encode", Median(load.encode_ms), copy_ms);
    Print(load.codec().name(), "decode_accumulate", Median(load.decode_ms), copy_ms);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::shared_ptr<const Codec>>> CodecsOfFlags() {
  if (absl::GetFlag(FLAGS_elements) < 1) {
    return absl::InvalidArgumentError("--elements: expected 1 or more");
  }
  if (absl::GetFlag(FLAGS_repetitions) < 1) {
    return absl::InvalidArgumentError("--repetitions: expected 1 or more");
  }
  std::vector<std::shared_ptr<const Codec>> codecs;
  for (const std::string& text : absl::GetFlag(FLAGS_codecs)) {
    auto codec = MakeCodec(text);
    RETURN_IF_ERROR(Annotate(codec.status(), "--codecs"));
    codecs.push_back(*std::move(codec));
  }
  return codecs;
}

absl::Status Run(const std::vector<std::shared_ptr<const Codec>>& codecs) {
  Random random(/*seed=*/1);
  Values values(absl::GetFlag(FLAGS_elements));
  for (float& value : values) value = random.Normal();
  std::vector<CodecLoad> loads;
  for (const auto& codec : codecs) loads.emplace_back(codec, values);
  for (CodecLoad& load : loads) RETURN_IF_ERROR(load.CheckResult());
  return Measure(loads, values);
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  capstan::InitProgram(argv[0],
                       "measures codecs on one thread, beside a copy of the same values: encode "
                       "(topk: add the residual, select, encode, update the residual), and "
                       "decode_accumulate: add checked bytes to a sum.\n"
                       "  codec_benchmark [--codecs=int8,topk:0.01] [--json]");
  const absl::Status parsed = capstan::ParseProgramFlags({argv, argv + argc});
  if (!parsed.ok()) capstan::EndProgram("codec_benchmark", parsed, /*is_usage_error=*/true);
  const auto codecs = capstan::CodecsOfFlags();
  if (!codecs.ok()) {
    capstan::EndProgram("codec_benchmark", codecs.status(), /*is_usage_error=*/true);
  }
  capstan::EndProgram("codec_benchmark", capstan::Run(*codecs));
}
