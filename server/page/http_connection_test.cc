#include "server/page/http_connection.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/base/real_clock.h"

namespace capstan {
namespace {

constexpr size_t kMostBytes = 100;
// Longer than the test may take: what waits for this time fails the test.
constexpr absl::Duration kForever = absl::Hours(1);

// A connection in plaintext. The test has the other end.
class HttpConnectionTest : public testing::Test {
 protected:
  HttpConnectionTest() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    client_ = ends[1];
    connection_ = std::make_unique<HttpConnection>(ends[0], stop_, clock_, /*tls=*/nullptr);
    connection_->set_deadline(clock_.Now() + kForever);
  }
  ~HttpConnectionTest() override {
    close(client_);
    close(stop_);
  }
  void Send(const std::string& bytes) {
    EXPECT_EQ(send(client_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  RealClock clock_;
  int client_ = -1;
  const int stop_ = eventfd(0, EFD_CLOEXEC);
  std::unique_ptr<HttpConnection> connection_;
};

TEST_F(HttpConnectionTest, AHeadEndsWithAnEmptyLineAndWhatFollowsIsReadLater) {
  Send("GET / HTTP/1.1\r\n\r\nbody");
  EXPECT_EQ(connection_->ReadHead(kMostBytes), "GET / HTTP/1.1\r\n\r\n");
  char bytes[10];
  EXPECT_EQ(connection_->Read(bytes, sizeof(bytes)), 4);
  EXPECT_EQ(std::string(bytes, 4), "body");
}

TEST_F(HttpConnectionTest, ALongerHeadIsCut) {
  Send(std::string(10 * kMostBytes, 'a'));
  EXPECT_EQ(connection_->ReadHead(kMostBytes), std::string(kMostBytes, 'a'));
}

TEST_F(HttpConnectionTest, NothingIsReadAfterTheDeadline) {
  Send("GET /");
  connection_->set_deadline(clock_.Now() + absl::Milliseconds(20));
  EXPECT_EQ(connection_->ReadHead(kMostBytes), std::nullopt);
  char byte;
  EXPECT_LE(connection_->Read(&byte, 0), 0);
}

TEST_F(HttpConnectionTest, AWriteEndsAtTheDeadlineIfNobodyReads) {
  connection_->set_deadline(clock_.Now() + absl::Milliseconds(20));
  EXPECT_FALSE(connection_->WriteAll(std::string(16 << 20, 'a')));
}

TEST_F(HttpConnectionTest, TheOwnersEndEndsAWait) {
  eventfd_write(stop_, 1);
  EXPECT_EQ(connection_->ReadHead(kMostBytes), std::nullopt);
}

TEST_F(HttpConnectionTest, TheEndOfTheClientIsSomethingToRead) {
  EXPECT_FALSE(connection_->AwaitBytes(clock_.Now() + absl::Milliseconds(5)));
  shutdown(client_, SHUT_WR);
  EXPECT_TRUE(connection_->AwaitBytes(clock_.Now() + kForever));
  EXPECT_EQ(connection_->ReadHead(kMostBytes), std::nullopt);
}

}  // namespace
}  // namespace capstan
