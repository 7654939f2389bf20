#include "common/net/http_connection.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>

namespace capstan {
namespace {

// More than a socket takes of what nobody reads.
constexpr size_t kLongBytes = 32 << 20;

// A connection in plaintext. The test has the other end.
class HttpConnectionTest : public testing::Test {
 protected:
  HttpConnectionTest() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    client_ = ends[1];
    connection_ = std::make_unique<HttpConnection>(ends[0], /*tls=*/nullptr);
  }
  ~HttpConnectionTest() override { close(client_); }
  void Send(const std::string& bytes) {
    EXPECT_EQ(send(client_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  int client_ = -1;
  char bytes_[10];
  std::unique_ptr<HttpConnection> connection_;
};

TEST_F(HttpConnectionTest, ReadsWhatThereIs) {
  EXPECT_EQ(connection_->Read(bytes_, sizeof(bytes_)), 0);
  Send("text");
  EXPECT_EQ(connection_->Read(bytes_, sizeof(bytes_)), 4);
  EXPECT_EQ(std::string(bytes_, 4), "text");
  EXPECT_EQ(connection_->Read(bytes_, sizeof(bytes_)), 0);
}

TEST_F(HttpConnectionTest, TheEndOfTheClientIsTheEndOfTheConnection) {
  Send("text");
  shutdown(client_, SHUT_WR);
  EXPECT_EQ(connection_->Read(bytes_, sizeof(bytes_)), 4);
  EXPECT_LT(connection_->Read(bytes_, sizeof(bytes_)), 0);
}

TEST_F(HttpConnectionTest, WritesAsMuchAsTheClientReads) {
  const std::string text(kLongBytes, 'a');
  while (connection_->Write(text) > 0) {
  }
  EXPECT_EQ(connection_->Write(text), 0);
  EXPECT_GT(recv(client_, std::string(kLongBytes, ' ').data(), kLongBytes, 0), 0);
  EXPECT_GT(connection_->Write(text), 0);
  shutdown(client_, SHUT_RDWR);
  EXPECT_LT(connection_->Write(text), 0);
}

TEST_F(HttpConnectionTest, AfterItsEndTheClientMayStillSend) {
  connection_->End();
  EXPECT_EQ(recv(client_, bytes_, sizeof(bytes_), 0), 0);
  Send("text");
  EXPECT_EQ(connection_->Read(bytes_, sizeof(bytes_)), 4);
}

}  // namespace
}  // namespace capstan
