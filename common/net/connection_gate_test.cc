#include "common/net/connection_gate.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "common/base/one_shot.h"
#include "common/base/real_clock.h"

namespace capstan {
namespace {

// The number of the next file descriptor.
int LowestFree() {
  const int fd = dup(STDIN_FILENO);
  close(fd);
  return fd;
}

// A gate for one connection of a member, and one of a stranger.
class ConnectionGateTest : public testing::Test {
 protected:
  void Open() {
    gate_->Open([this](int socket) {
      taken_[num_taken_].Set(socket);
      ++num_taken_;
    });
  }
  int Connect(in_addr_t from = INADDR_LOOPBACK) {
    sockaddr_in own = {};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(from);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(gate_->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int client = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(bind(client, reinterpret_cast<sockaddr*>(&own), sizeof(own)), 0);
    EXPECT_EQ(connect(client, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return client;
  }
  // Whether the gate has closed the connection.
  static bool IsClosed(int client) {
    pollfd waits = {client, POLLIN, 0};
    char byte = 0;
    return poll(&waits, 1, /*timeout=*/0) == 1 && recv(client, &byte, 1, 0) <= 0;
  }
  static std::string PeerOf(int taken) {
    sockaddr_in peer = {};
    socklen_t size = sizeof(peer);
    EXPECT_EQ(getpeername(taken, reinterpret_cast<sockaddr*>(&peer), &size), 0);
    return "ipv4:127.0.0.1:" + std::to_string(ntohs(peer.sin_port));
  }

  RealClock clock_;
  OneShot<int> taken_[5] = {OneShot<int>(&clock_), OneShot<int>(&clock_), OneShot<int>(&clock_),
                            OneShot<int>(&clock_), OneShot<int>(&clock_)};
  int num_taken_ = 0;  // used by the gate's thread alone
  std::unique_ptr<ConnectionGate> gate_ =
      ConnectionGate::Listen("127.0.0.1", /*port=*/0, {/*proved=*/1, /*unproved=*/1});
};

TEST_F(ConnectionGateTest, ANewUnprovedConnectionEndsTheOldestOne) {
  Open();
  const int first = Connect();
  taken_[0].Wait();
  EXPECT_FALSE(IsClosed(first));
  const int second = Connect();
  taken_[1].Wait();
  EXPECT_TRUE(IsClosed(first));
  EXPECT_FALSE(IsClosed(second));
  EXPECT_EQ(gate_->counts().strangers(), 1);
  EXPECT_EQ(gate_->counts().too_many, 1);
  for (const int fd : {first, second, taken_[0].Wait(), taken_[1].Wait()}) close(fd);
}

TEST_F(ConnectionGateTest, AProvedConnectionStays) {
  Open();
  const int member = Connect();
  EXPECT_TRUE(gate_->Prove(PeerOf(taken_[0].Wait()), /*is_member=*/true));
  const int stranger = Connect();
  EXPECT_FALSE(gate_->Prove(PeerOf(taken_[1].Wait()), /*is_member=*/true)) << "there is one place";
  const int another = Connect();
  taken_[2].Wait();
  EXPECT_FALSE(IsClosed(member));
  EXPECT_TRUE(IsClosed(stranger));
  EXPECT_EQ(gate_->counts().proved, 1);
  EXPECT_EQ(gate_->counts().unproved, 1);
  for (const int fd : {member, stranger, another}) close(fd);
  for (int i = 0; i < 3; ++i) close(taken_[i].Wait());
}

TEST_F(ConnectionGateTest, AFloodOfOneHostShutsOutNoOtherHost) {
  gate_ = ConnectionGate::Listen("127.0.0.1", /*port=*/0, {/*proved=*/1, /*unproved=*/3});
  Open();
  const int other = Connect(INADDR_LOOPBACK + 1);  // 127.0.0.2
  taken_[0].Wait();
  int flood[4];
  for (int i = 0; i < 4; ++i) {
    flood[i] = Connect();
    taken_[1 + i].Wait();
  }
  EXPECT_FALSE(IsClosed(other));
  EXPECT_TRUE(IsClosed(flood[0]));
  EXPECT_TRUE(IsClosed(flood[1]));
  EXPECT_FALSE(IsClosed(flood[3]));
  close(other);
  for (const int fd : flood) close(fd);
  for (OneShot<int>& taken : taken_) close(taken.Wait());
}

TEST_F(ConnectionGateTest, AStrangerHasLittleTime) {
  gate_ = ConnectionGate::Listen("127.0.0.1", /*port=*/0,
                                 {/*proved=*/1, /*unproved=*/2, absl::Milliseconds(300)});
  Open();
  const int guest = Connect();
  EXPECT_TRUE(gate_->Prove(PeerOf(taken_[0].Wait()), /*is_member=*/false));
  const int stranger = Connect();
  taken_[1].Wait();
  char byte = 0;
  EXPECT_LE(recv(stranger, &byte, 1, 0), 0);  // waits for the end
  EXPECT_FALSE(IsClosed(guest));
  EXPECT_EQ(gate_->counts().strangers(), 1);
  EXPECT_EQ(gate_->counts().time, 1);
  for (const int fd : {guest, stranger, taken_[0].Wait(), taken_[1].Wait()}) close(fd);
}

TEST_F(ConnectionGateTest, AStrangerHasFewBytes) {
  gate_ = ConnectionGate::Listen("127.0.0.1", /*port=*/0,
                                 {/*proved=*/1, /*unproved=*/2, absl::Hours(1), /*bytes=*/1000});
  Open();
  const int brief = Connect();
  EXPECT_EQ(send(brief, "words", 5, MSG_NOSIGNAL), 5);
  const int stranger = Connect();
  taken_[1].Wait();
  const std::string flood(1500, 'x');
  EXPECT_EQ(send(stranger, flood.data(), flood.size(), MSG_NOSIGNAL), 1500);
  char byte = 0;
  EXPECT_LE(recv(stranger, &byte, 1, 0), 0);  // waits for the end
  EXPECT_FALSE(IsClosed(brief));
  EXPECT_EQ(gate_->counts().bytes, 1);
  for (const int fd : {brief, stranger, taken_[0].Wait(), taken_[1].Wait()}) close(fd);
}

TEST_F(ConnectionGateTest, AllStrangersTogetherHaveFewBytes) {
  gate_ = ConnectionGate::Listen("127.0.0.1", /*port=*/0,
                                 {/*proved=*/1, /*unproved=*/5, absl::Hours(1), /*bytes=*/1000,
                                  /*mean_bytes=*/300});
  Open();
  const std::string words(600, 'x');
  const auto say = [&words](int client, size_t bytes) {
    EXPECT_EQ(send(client, words.data(), bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
  };
  const int other = Connect(INADDR_LOOPBACK + 1);  // 127.0.0.2
  say(other, 500);
  const int silent = Connect();
  const int first = Connect();
  say(first, 600);
  const int second = Connect();
  taken_[3].Wait();
  EXPECT_FALSE(IsClosed(first));
  say(second, 500);
  char byte = 0;
  EXPECT_LE(recv(first, &byte, 1, 0), 0);  // waits for the end
  for (const int fd : {other, silent, second}) EXPECT_FALSE(IsClosed(fd));
  EXPECT_EQ(gate_->counts().bytes, 1);
  for (const int fd : {other, silent, first, second}) close(fd);
  for (int i = 0; i < 4; ++i) close(taken_[i].Wait());
}

TEST_F(ConnectionGateTest, AFloodOfConnectionsGivesAStrangerNoMoreBytes) {
  gate_ = ConnectionGate::Listen("127.0.0.1", /*port=*/0,
                                 {/*proved=*/1, /*unproved=*/9, absl::Hours(1), /*bytes=*/1000});
  std::atomic<bool> floods = true;
  // The next connection waits already when one is taken.
  gate_->Open([this, &floods](int socket) {
    if (num_taken_++ == 0) {
      taken_[0].Set(socket);
    } else {
      shutdown(socket, SHUT_RDWR);
      close(socket);
    }
    if (floods) close(Connect());
  });
  const int stranger = Connect(INADDR_LOOPBACK + 1);  // 127.0.0.2
  taken_[0].Wait();
  const std::string words(1500, 'x');
  EXPECT_EQ(send(stranger, words.data(), words.size(), MSG_NOSIGNAL), 1500);
  char byte = 0;
  EXPECT_LE(recv(stranger, &byte, 1, 0), 0);  // waits for the end
  floods = false;
  gate_->Close();
  close(stranger);
  close(taken_[0].Wait());
}

TEST_F(ConnectionGateTest, AConnectionThatIsShutGivesItsPlaceAndItsDescriptorBackOnce) {
  Open();
  const int first_client = Connect();
  const int first = taken_[0].Wait();
  EXPECT_TRUE(gate_->Prove(PeerOf(first), /*is_member=*/true));
  const std::string peer = PeerOf(first);
  shutdown(first, SHUT_RDWR);
  close(first_client);
  const int second_client = Connect();
  const int second = taken_[1].Wait();  // may get the number of the gate's first duplicate
  // The gate notices the end of the first one soon.
  while (!gate_->Prove(PeerOf(second), /*is_member=*/true)) std::this_thread::yield();
  EXPECT_NE(fcntl(second, F_GETFD), -1) << "the gate has closed it";
  for (const int fd : {first, second, second_client}) close(fd);
}

TEST_F(ConnectionGateTest, WithoutFileDescriptorsAConnectionIsClosedAndTheGateGoesOn) {
  const int client = Connect();
  rlimit before = {};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit one_more = before;
  one_more.rlim_cur = LowestFree() + 1;
  setrlimit(RLIMIT_NOFILE, &one_more);
  Open();
  char byte = 0;
  EXPECT_LE(recv(client, &byte, 1, 0), 0);
  setrlimit(RLIMIT_NOFILE, &before);
  const int next = Connect();
  EXPECT_GE(taken_[0].Wait(), 0);
  for (const int fd : {client, next, taken_[0].Wait()}) close(fd);
}

}  // namespace
}  // namespace capstan
