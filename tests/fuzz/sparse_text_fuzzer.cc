// Streams of sparse samples: LIBSVM, libFFM, and CSV with categories, plain or gzip.
#include <glog/logging.h>

#include <memory>
#include <utility>

#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/memory_file.h"
#include "worker/dataset/sparse/categorical_csv_parser.h"
#include "worker/dataset/sparse/sparse_batch.h"
#include "worker/dataset/sparse/sparse_text_parser.h"
#include "worker/dataset/sparse/text_sample_stream.h"

namespace capstan {
namespace {

std::unique_ptr<LineParser> MakeParser(int format) {
  if (format == 0) return MakeLibsvmLineParser({});
  if (format == 1) return MakeLibffmLineParser({});
  return *MakeCategoricalCsvParser(
      {{CsvColumn::kLabel, CsvColumn::kNumeric, CsvColumn::kCategorical, CsvColumn::kIgnored},
       format == 2 ? ',' : '\t'});
}

void CheckBatch(const SparseBatch& batch, size_t count, size_t most) {
  CHECK_EQ(batch.size(), count);
  CHECK_LE(count, most);
  CHECK_EQ(batch.row_starts().size(), count + 1);
  CHECK_EQ(batch.row_starts()[count], batch.keys().size());
  for (size_t i = 0; i < count; ++i) {
    const SparseSample sample = batch.Sample(i);
    CHECK(sample.label == 0 || sample.label == 1);
    CHECK_EQ(sample.keys.size(), sample.values.size());
  }
}

void ReadAll(FuzzInput input) {
  const int format = input.TakeByte() % 4;
  const size_t most = 1 + input.TakeByte() % 8;
  TextSampleStream::Options options;
  options.has_header = input.TakeByte() % 2 == 1;
  options.passes = input.TakeByte() % 2 == 1 ? 0 : 1;
  options.share = {input.TakeByte() % 2u, 1 + input.TakeByte() % 2u};
  options.max_line_bytes = input.TakeByte();
  options.max_batch_features = input.TakeByte();
  const MemoryFile file(input.rest());
  options.path = file.path();
  auto stream = TextSampleStream::Create(options, MakeParser(format));
  if (!stream.ok()) return;
  SparseBatch batch;
  for (int call = 0; call < 50; ++call) {
    const auto count = (*stream)->Next(most, &batch);
    if (!count.ok() || *count == 0) return;
    CheckBatch(batch, *count, most);
  }
}

}  // namespace
}  // namespace capstan

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  capstan::ReadAll(capstan::FuzzInput(data, size));
  return 0;
}
