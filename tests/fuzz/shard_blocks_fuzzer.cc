// Blocks of a shard. The first byte says whether checksums are made right: else the fuzzer would
// not get past them. What decodes is encoded to the same bytes.
#include <glog/logging.h>
#include <xxhash.h>

#include <string>

#include "common/base/little_endian.h"
#include "server/checkpoint/shard_blocks.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

// One block for each part of the input: its kind and version, and its contents.
std::string WithChecksums(capstan::FuzzInput& input) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) {
    const uint32_t kind = input.TakeByte();
    const uint32_t version = input.TakeByte();
    const absl::string_view contents = input.TakePart();
    if (i > 0 && contents.empty()) break;
    const size_t begin = bytes.size();
    capstan::AppendLittleEndian(kind, &bytes);
    capstan::AppendLittleEndian(version, &bytes);
    capstan::AppendLittleEndian(uint64_t{contents.size()}, &bytes);
    bytes.append(contents.data(), contents.size());
    capstan::AppendLittleEndian(uint64_t{XXH3_64bits(bytes.data() + begin, bytes.size() - begin)},
                                &bytes);
  }
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  capstan::FuzzInput input(data, size);
  const bool makes_checksums = input.TakeByte() != 0;
  const std::string bytes = makes_checksums ? WithChecksums(input) : std::string(input.rest());
  const auto shard = capstan::DecodeShardBlocks(bytes);
  if (shard.ok()) CHECK_EQ(capstan::EncodeShardBlocks(*shard).size(), bytes.size());
  return 0;
}
