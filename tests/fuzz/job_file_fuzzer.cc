// Job files.
#include <glog/logging.h>
#include <google/protobuf/util/message_differencer.h>

#include "common/job/load_job.h"
#include "common/job/validate_job.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const capstan::FuzzInput input(data, size);
  const auto job = capstan::LoadJobFile(capstan::MemoryFile(input.rest()).path());
  if (!job.ok() || !capstan::ValidateJob(*job).ok()) return 0;
  const capstan::MemoryFile saved;
  CHECK(capstan::SaveJobFile(*job, saved.path()).ok());
  const auto same_job = capstan::LoadJobFile(saved.path());
  CHECK(same_job.ok()) << same_job.status();
  CHECK(google::protobuf::util::MessageDifferencer::Equivalent(*same_job, *job));
  return 0;
}
