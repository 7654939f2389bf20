// Manifests of checkpoints. The first byte says whether the checksum is made right: else the fuzzer
// would not get past it. What decodes is encoded to a text that decodes to the same text, and its
// job can go on from it.
#include <glog/logging.h>
#include <xxhash.h>

#include <string>

#include "absl/strings/str_format.h"
#include "server/checkpoint/job_of_checkpoint.h"
#include "server/checkpoint/manifest.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  capstan::FuzzInput input(data, size);
  const bool makes_checksum = input.TakeByte() != 0;
  std::string text(input.rest());
  if (makes_checksum) {
    absl::StrAppendFormat(&text, "# XXH3-64 of the lines above: %016x\n",
                          XXH3_64bits(text.data(), text.size()));
  }
  const auto manifest = capstan::DecodeManifest(text, "manifest");
  if (!manifest.ok()) return 0;
  const std::string encoded = capstan::EncodeManifest(*manifest);
  const auto same = capstan::DecodeManifest(encoded, "manifest");
  CHECK(same.ok()) << same.status();
  CHECK_EQ(capstan::EncodeManifest(*same), encoded);
  const auto job = capstan::CheckJobOfCheckpoint(*same, same->job(), "checkpoint-000001");
  CHECK(job.ok()) << job;
  return 0;
}
