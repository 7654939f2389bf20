#include "common/transport/grpc/connection_gate.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "common/base/one_shot.h"
#include "common/base/real_clock.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

// The number of the next file descriptor.
int LowestFree() {
  const int fd = dup(STDIN_FILENO);
  close(fd);
  return fd;
}

// A gate for one connection.
class ConnectionGateTest : public testing::Test {
 protected:
  void Open() {
    gate_->Open([this](int socket) {
      taken_[num_taken_].Set(socket);
      ++num_taken_;
    });
  }
  int Connect() {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(gate_->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int client = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(connect(client, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return client;
  }
  int ConnectAndSpeak() {
    const int client = Connect();
    EXPECT_EQ(send(client, "words", 5, MSG_NOSIGNAL), 5);
    return client;
  }
  // Reads from `client` until the end, then closes it.
  static std::string HeardBy(int client) {
    std::string heard;
    char words[256];
    ssize_t size = 0;
    while ((size = recv(client, words, sizeof(words), 0)) > 0) heard.append(words, size);
    EXPECT_EQ(size, 0) << "the connection was reset";
    close(client);
    return heard;
  }

  RealClock clock_;
  OneShot<int> taken_[2] = {OneShot<int>(&clock_), OneShot<int>(&clock_)};
  int num_taken_ = 0;  // used by the gate's thread alone
  std::unique_ptr<ConnectionGate> gate_ =
      ConnectionGate::Listen("127.0.0.1", /*port=*/0, /*max_connections=*/1);
};

TEST_F(ConnectionGateTest, AConnectionThatIsShutGivesItsPlaceAndItsDescriptorBackOnce) {
  Open();
  const int first_client = Connect();
  const int first = taken_[0].Wait();
  shutdown(first, SHUT_RDWR);
  const int second_client = Connect();
  const int second = taken_[1].Wait();  // may get the number of the gate's first duplicate
  close(first_client);
  EXPECT_THAT(HeardBy(Connect()), HasSubstr("the server has 1 connections (--max_connections)"));
  EXPECT_NE(fcntl(second, F_GETFD), -1) << "the gate has closed it";
  for (const int fd : {first, second, second_client}) close(fd);
}

TEST_F(ConnectionGateTest, AClientThatSpeaksFirstIsRefusedWithoutAReset) {
  const int first_client = Connect();
  const int second_client = ConnectAndSpeak();
  Open();
  EXPECT_THAT(HeardBy(second_client), HasSubstr("(--max_connections)"));
  close(taken_[0].Wait());
  close(first_client);
}

TEST_F(ConnectionGateTest, ARefusalForWantOfFileDescriptorsSaysSo) {
  const int client = Connect();
  rlimit before = {};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit one_more = before;
  one_more.rlim_cur = LowestFree() + 1;
  setrlimit(RLIMIT_NOFILE, &one_more);
  Open();
  EXPECT_THAT(HeardBy(client), HasSubstr("the server has no file descriptor left"));
  setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace capstan
