#include "common/job/job_fingerprint.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <xxhash.h>

#include <string>

namespace capstan {

uint64_t JobFingerprint(const v1::JobSpec& job) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);
    job.SerializeToCodedStream(&out);
  }
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace capstan
