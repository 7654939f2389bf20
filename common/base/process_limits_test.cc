#include "common/base/process_limits.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <string>

namespace capstan {
namespace {

// Puts this process's limit back.
class ScopedLimit {
 public:
  explicit ScopedLimit(__rlimit_resource resource = RLIMIT_NOFILE) : resource_(resource) {
    getrlimit(resource_, &before_);
  }
  ~ScopedLimit() { setrlimit(resource_, &before_); }
  const rlimit& before() const { return before_; }
  void Set(rlim_t soft) const {
    const rlimit changed = {soft, before_.rlim_max};
    setrlimit(resource_, &changed);
  }

 private:
  const __rlimit_resource resource_;
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

TEST(AddressSpaceTest, AProcessThatMayHaveTooLittleIsToldSo) {
  EXPECT_TRUE(ExpectAddressSpace().ok());
  const ScopedLimit limit(RLIMIT_AS);
  constexpr rlim_t kMiB = rlim_t{1} << 20;
  limit.Set(700 * kMiB);
  const absl::Status status = ExpectAddressSpace();
  limit.Set(limit.before().rlim_cur);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("got 700 MiB: raise the limit (ulimit -v)"), std::string::npos)
      << status;
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
