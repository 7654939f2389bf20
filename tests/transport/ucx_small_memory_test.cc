// Where shared memory is too small for UCX, as in containers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <string>

#include "common/base/real_clock.h"
#include "common/transport/ucx/ucx_transport.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

TEST(UcxSmallMemoryTest, TheErrorSaysHowMuchIsNeededAndWhatToDo) {
  // Mounts of this process alone.
  ASSERT_EQ(unshare(CLONE_NEWNS), 0);
  ASSERT_EQ(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
  ASSERT_EQ(mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1m"), 0);
  RealClock clock;
  UcxTransport::Options options;
  options.clock = &clock;
  options.transports = "sm,self";
  EXPECT_THAT(std::string(StartUcxTransport(options).status().message()),
              HasSubstr("UCX takes 4208 KiB of /dev/shm for each server and worker, but 1024 KiB "
                        "are left: make it larger (docker run --shm-size=256m), or use "
                        "--transport=grpc"));
  // As much as it says is enough.
  ASSERT_EQ(mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=4208k"), 0);
  EXPECT_TRUE(StartUcxTransport(options).ok()) << StartUcxTransport(options).status();
}

}  // namespace
}  // namespace capstan
