#ifndef WORKER_DATASET_TEMP_FILE_H_
#define WORKER_DATASET_TEMP_FILE_H_

#include <glog/logging.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace capstan {

// For tests: `bytes` as a gzip file.
inline std::string GzipBytes(absl::string_view bytes) {
  z_stream z = {};
  CHECK_EQ(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string output(deflateBound(&z, bytes.size()), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(&output[0]);
  z.avail_out = static_cast<uInt>(output.size());
  CHECK_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  output.resize(z.total_out);
  deflateEnd(&z);
  return output;
}

// For tests: writes a file for the running test alone. Returns its path.
inline std::string WriteTempFile(absl::string_view name, absl::string_view bytes) {
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string path =
      absl::StrCat(testing::TempDir(), "/", test->test_suite_name(), ".", test->name(), ".", name);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
  file.close();
  CHECK(file.good()) << "cannot write " << path;
  return path;
}

}  // namespace capstan

#endif  // WORKER_DATASET_TEMP_FILE_H_
