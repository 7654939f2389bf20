#include "worker/dataset/digits.h"

#include <glog/logging.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/dataset/csv_reader.h"
#include "worker/dataset/gunzip.h"

namespace capstan {
namespace {

constexpr unsigned char kDigitsCsvGz[] = {
#include "worker/dataset/digits.csv.gz.inc"
};

}  // namespace

Dataset MakeDigits() {
  const absl::string_view bytes(reinterpret_cast<const char*>(kDigitsCsvGz), sizeof(kDigitsCsvGz));
  const absl::StatusOr<std::string> text = Gunzip(bytes, /*max_bytes=*/UINT64_MAX);
  CHECK(text.ok()) << text.status();
  absl::StatusOr<Dataset> data = ParseCsv(*text, "built-in digits", CsvOptions());
  CHECK(data.ok()) << data.status();
  return *std::move(data);
}

}  // namespace capstan
