#ifndef COMMON_NET_TEST_CLIENT_H_
#define COMMON_NET_TEST_CLIENT_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "absl/strings/numbers.h"

namespace capstan {

inline constexpr int kPatienceMilliseconds = 20'000;

// A client's socket, for tests of listeners.
class TestClient {
 public:
  explicit TestClient(const std::string& address) {
    int port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  }
  ~TestClient() { close(fd_); }
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  void Send(const std::string& bytes) {
    EXPECT_EQ(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL), bytes.size());
  }
  void EndWriting() { shutdown(fd_, SHUT_WR); }
  // All that comes until the other side closes; "open" if it does not.
  std::string ReadToEnd(int patience_milliseconds = kPatienceMilliseconds) {
    std::string heard;
    char bytes[1000];
    while (true) {
      pollfd readable = {fd_, POLLIN, 0};
      if (poll(&readable, 1, patience_milliseconds) == 0) return "open";
      const ssize_t size = recv(fd_, bytes, sizeof(bytes), 0);
      if (size <= 0) return heard;
      heard.append(bytes, size);
    }
  }
  // The first bytes that come; "" if the other side closes.
  std::string ReadSome() {
    char bytes[1000];
    pollfd readable = {fd_, POLLIN, 0};
    EXPECT_EQ(poll(&readable, 1, kPatienceMilliseconds), 1);
    const ssize_t size = recv(fd_, bytes, sizeof(bytes), 0);
    return std::string(bytes, size > 0 ? size : 0);
  }
  bool is_open() { return ReadToEnd(/*patience_milliseconds=*/0) == "open"; }
  int fd() const { return fd_; }

 private:
  const int fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
};

}  // namespace capstan

#endif  // COMMON_NET_TEST_CLIENT_H_
