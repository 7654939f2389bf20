#include "worker/models/sparse_training/stream_data.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/job_properties.h"
#include "worker/dataset/sparse/categorical_csv_parser.h"
#include "worker/dataset/sparse/prefetching_stream.h"
#include "worker/dataset/sparse/sparse_text_parser.h"
#include "worker/dataset/sparse/synthetic_ctr_stream.h"
#include "worker/models/sparse_training/sparse_model.h"

namespace capstan {
namespace {

SyntheticCtr::Options SyntheticOptions(const v1::SyntheticCtrSpec& spec, uint64_t seed) {
  SyntheticCtr::Options options;
  options.samples = spec.samples();
  options.held_out = spec.test_samples();
  options.keys = spec.keys();
  options.zipf_exponent = spec.zipf_exponent();
  options.has_interactions = spec.interactions();
  options.seed = seed;
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const StreamData>> StreamData::Open(const v1::JobSpec& job,
                                                                   Clock* clock) {
  std::unique_ptr<StreamData> data(new StreamData(job, clock));
  RETURN_IF_ERROR(data->SetUp());
  return std::unique_ptr<const StreamData>(std::move(data));
}

absl::Status StreamData::SetUp() {
  const v1::DataSpec& spec = job_.data();
  if (spec.format() == v1::DataSpec::SYNTHETIC_CTR) {
    ASSIGN_OR_RETURN(synthetic_,
                     SyntheticCtr::Create(SyntheticOptions(spec.synthetic_ctr(), job_.seed())));
    field_count_ = SyntheticCtr::kFieldCount;
    dense_count_ = SyntheticCtr::kDenseCount;
    return absl::OkStatus();
  }
  if (spec.format() == v1::DataSpec::CSV) RETURN_IF_ERROR(SetUpColumns());
  if (spec.format() == v1::DataSpec::LIBFFM) field_count_ = spec.fields();
  // A missing file is found before the training, and not at its end.
  for (const std::string& path : {spec.path(), spec.test_path()}) {
    if (path.empty() || path == kStandardInputPath) continue;
    RETURN_IF_ERROR(OpenFile(path, /*passes=*/1, {}).status());
  }
  return absl::OkStatus();
}

absl::Status StreamData::SetUpColumns() {
  ASSIGN_OR_RETURN(columns_, ParseCsvColumns(job_.data().columns()));
  ASSIGN_OR_RETURN(delimiter_, ParseDelimiter(job_.data().delimiter()));
  field_count_ = std::count(columns_.begin(), columns_.end(), CsvColumn::kCategorical);
  dense_count_ = std::count(columns_.begin(), columns_.end(), CsvColumn::kNumeric);
  return absl::OkStatus();
}

uint64_t StreamData::pass_samples() const {
  return is_synthetic() ? synthetic_->Count(SyntheticCtr::Part::kTraining) : 0;
}

absl::StatusOr<std::unique_ptr<LineParser>> StreamData::MakeParser() const {
  SparseTextOptions options;
  options.max_key = kMaxFeatureKey;
  switch (job_.data().format()) {
    case v1::DataSpec::LIBSVM:
      return MakeLibsvmLineParser(options);
    case v1::DataSpec::LIBFFM:
      if (field_count_ > 0) options.max_field = static_cast<uint32_t>(field_count_ - 1);
      return MakeLibffmLineParser(options);
    case v1::DataSpec::CSV:
      return MakeCategoricalCsvParser({columns_, delimiter_});
    case v1::DataSpec::SYNTHETIC_CTR:  // has no lines
    case v1::DataSpec::DIGITS:
    case v1::DataSpec::IDX:
    case v1::DataSpec::SYNTHETIC:
    case v1::DataSpec::FORMAT_UNSPECIFIED:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("data.format: expected LIBSVM, LIBFFM, CSV or SYNTHETIC_CTR, got ",
                   v1::DataSpec::Format_Name(job_.data().format()),
                   ", which is no stream; choose another --data_format or --model"));
}

absl::StatusOr<std::unique_ptr<SampleStream>> StreamData::OpenFile(const std::string& path,
                                                                   uint64_t passes,
                                                                   const SampleShare& share) const {
  ASSIGN_OR_RETURN(std::unique_ptr<LineParser> parser, MakeParser());
  TextSampleStream::Options options;
  options.path = path;
  options.has_header = job_.data().has_header();
  options.passes = passes;
  options.share = share;
  return TextSampleStream::Create(std::move(options), std::move(parser));
}

absl::StatusOr<std::unique_ptr<SampleStream>> StreamData::OpenSynthetic(
    SyntheticCtr::Part part, uint64_t passes, const SampleShare& share) const {
  return SyntheticCtrStream::Create({part, passes, share}, synthetic_.get());
}

absl::StatusOr<std::unique_ptr<SampleStream>> StreamData::OpenTraining(
    const SampleShare& share) const {
  const bool is_cut_by_steps = job_.training().steps() > 0 || job_.stay();
  uint64_t passes = is_cut_by_steps ? 0 : job_.training().epochs();
  if (job_.data().path() == kStandardInputPath) passes = 1;
  ASSIGN_OR_RETURN(std::unique_ptr<SampleStream> stream,
                   is_synthetic() ? OpenSynthetic(SyntheticCtr::Part::kTraining, passes, share)
                                  : OpenFile(job_.data().path(), passes, share));
  PrefetchingStream::Options options;
  options.batch_size = job_.training().batch_size();
  return PrefetchingStream::Create(options, std::move(stream), clock_);
}

absl::StatusOr<std::unique_ptr<SampleStream>> StreamData::OpenTest() const {
  if (!is_synthetic() && job_.data().test_path().empty()) return nullptr;
  ASSIGN_OR_RETURN(std::unique_ptr<SampleStream> stream,
                   is_synthetic() ? OpenSynthetic(SyntheticCtr::Part::kHeldOut, /*passes=*/1, {})
                                  : OpenFile(job_.data().test_path(), /*passes=*/1, {}));
  PrefetchingStream::Options options;
  options.batch_size = kTestBatch;
  return PrefetchingStream::Create(options, std::move(stream), clock_);
}

std::optional<double> StreamData::BestTestAuc() const {
  if (!is_synthetic()) return std::nullopt;
  const absl::StatusOr<double> best =
      BestAuc(*synthetic_, synthetic_->Count(SyntheticCtr::Part::kHeldOut));
  // A few samples may all have the same label.
  return best.ok() ? std::optional<double>(*best) : std::nullopt;
}

}  // namespace capstan
