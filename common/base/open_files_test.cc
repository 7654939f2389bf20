#include "common/base/open_files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <string>

namespace capstan {
namespace {

// Puts this process's limit back.
class ScopedLimit {
 public:
  ScopedLimit() { getrlimit(RLIMIT_NOFILE, &before_); }
  ~ScopedLimit() { setrlimit(RLIMIT_NOFILE, &before_); }
  const rlimit& before() const { return before_; }
  void Set(rlim_t soft) const {
    const rlimit changed = {soft, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &changed);
  }

 private:
  rlimit before_;
};

TEST(OpenFilesTest, AProcessThatCanOpenNoFileIsToldSo) {
  EXPECT_TRUE(CheckOpenFiles().ok());
  const ScopedLimit limit;
  limit.Set(3);  // standard input, output and error
  const absl::Status status = CheckOpenFiles();
  limit.Set(limit.before().rlim_cur);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("as it may (3): raise the limit (ulimit -n)"), std::string::npos)
      << status;
}

TEST(OpenFilesTest, AServerThatMayNotHoldItsConnectionsIsToldSo) {
  EXPECT_TRUE(ExpectOpenFiles(4).ok());
  const ScopedLimit limit;
  limit.Set(27);
  const absl::Status status = ExpectOpenFiles(4);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(),
            "expected to be allowed 28 open files and connections, got 27: raise the limit "
            "(ulimit -n)");
}

TEST(OpenFilesTest, TheLimitIsRaisedToWhatTheSystemAllows) {
  const ScopedLimit limit;
  limit.Set(64);
  RaiseOpenFiles();
  rlimit raised;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &raised), 0);
  EXPECT_EQ(raised.rlim_cur, limit.before().rlim_max);
}

}  // namespace
}  // namespace capstan
