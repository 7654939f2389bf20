// Data files in LIBSVM's format.
#include <glog/logging.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "tests/fuzz/fuzz_input.h"
#include "worker/dataset/libsvm_reader.h"

namespace {

// True when the text has a long number. A file may ask for gigabytes by a large feature index, and
// that is correct.
bool HasNumberOfDigits(absl::string_view text, int digits) {
  int count = 0;
  return std::any_of(text.begin(), text.end(), [&count, digits](char c) {
    count = absl::ascii_isdigit(static_cast<unsigned char>(c)) ? count + 1 : 0;
    return count == digits;
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  capstan::FuzzInput input(data, size);
  capstan::LibsvmOptions options;
  options.features = input.TakeByte();
  options.classes = input.TakeByte();
  if (options.features == 0 && HasNumberOfDigits(input.rest(), /*digits=*/5)) return 0;
  const auto dataset = capstan::ParseLibsvm(input.rest(), "fuzz", options);
  if (!dataset.ok()) return 0;
  CHECK_EQ(dataset->features.size(), dataset->size() * dataset->feature_count);
  return 0;
}
