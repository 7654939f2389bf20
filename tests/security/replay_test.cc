// What a listener on a plaintext network has heard is of no use to it.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/one_shot.h"
#include "common/base/real_clock.h"
#include "common/exchange/parameter_endpoint.h"
#include "common/transport/grpc/call_guard.h"
#include "common/transport/grpc/grpc_endpoint.h"
#include "common/transport/grpc/grpc_parameter_service.h"
#include "common/transport/grpc/grpc_security.h"
#include "common/transport/grpc/grpc_server.h"
#include "common/transport/reply_order.h"
#include "common/transport/ucx/grpc_ucx_service.h"
#include "common/transport/ucx/ucx_transport.h"
#include "tests/transport/test_keys.h"
#include "tests/transport/test_shard_host.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int ConnectTo(const std::string& address) {
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port)) << address;
  const sockaddr_in to = Loopback(port);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  return fd;
}

// Passes one connection on to a server, and keeps what the client sends.
class Eavesdropper {
 public:
  Eavesdropper() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in any = Loopback(/*port=*/0);
    socklen_t size = sizeof(any);
    EXPECT_EQ(bind(listener_, reinterpret_cast<const sockaddr*>(&any), size), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&any), &size), 0);
    address_ = absl::StrCat("127.0.0.1:", ntohs(any.sin_port));
  }
  ~Eavesdropper() {
    shutdown(listener_, SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
    close(listener_);
  }

  const std::string& address() const { return address_; }
  void PassOnTo(const std::string& server) {
    thread_ = std::thread([this, server] { Run(server); });
  }
  std::string heard() const {
    MutexLock lock(&mu_);
    return heard_;
  }

 private:
  void Run(const std::string& server) {
    const int client_fd = accept(listener_, nullptr, nullptr);
    if (client_fd < 0) return;
    const int server_fd = ConnectTo(server);
    pollfd ends[] = {{client_fd, POLLIN, 0}, {server_fd, POLLIN, 0}};
    char bytes[64 << 10];
    while (poll(ends, 2, /*timeout=*/-1) > 0) {
      const bool is_client = ends[0].revents != 0;
      const ssize_t size = read(is_client ? client_fd : server_fd, bytes, sizeof(bytes));
      if (size <= 0) break;
      if (is_client) {
        MutexLock lock(&mu_);
        heard_.append(bytes, static_cast<size_t>(size));
      }
      send(is_client ? server_fd : client_fd, bytes, static_cast<size_t>(size), MSG_NOSIGNAL);
    }
    close(client_fd);
    close(server_fd);
  }

  const int listener_;
  std::string address_;
  std::thread thread_;
  mutable Mutex mu_;
  std::string heard_ ABSL_GUARDED_BY(mu_);
};

// Sends `bytes` on a connection of its own. Returns what the server answers until it is silent.
std::string Repeat(const std::string& server, const std::string& bytes) {
  const int fd = ConnectTo(server);
  EXPECT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  const timeval timeout = {/*tv_sec=*/1, /*tv_usec=*/0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  std::string answer;
  char part[4 << 10];
  while (true) {
    const ssize_t size = read(fd, part, sizeof(part));
    if (size <= 0) break;
    answer.append(part, static_cast<size_t>(size));
  }
  close(fd);
  return answer;
}

// A server without TLS, to which callers prove the job's token. Its only way is over the
// eavesdropper.
class ReplayTest : public testing::Test {
 protected:
  ReplayTest() {
    TestKeys keys;
    keys.authority = MakeTestAuthority();
    keys.token = MakeToken();
    security_ = GrpcSecurity::Open({WriteTestKeys(keys), /*is_insecure=*/true, &clock_}).value();
    CallGuard::Options guarded;
    guarded.clock = &clock_;
    guarded.security = security_;
    guard_ = std::make_unique<CallGuard>(guarded);
    guard_->set_audience(eavesdropper_.address());
    UcxTransport::Options options;
    options.clock = &clock_;
    ucx_ = StartUcxTransport(options).value();
    options.member = {security_, /*job=*/"replayed", /*incarnation=*/1};
    client_ucx_ = StartUcxTransport(options).value();
    listener_ = ucx_->Listen(host_.get(), ReplyOrder());
    ucx_service_ = std::make_unique<GrpcUcxService>(listener_.get(), /*streams=*/nullptr,
                                                    guard_.get(), "replayed");
    exchange_service_ = std::make_unique<GrpcParameterService>(host_.get(), 64 << 20, ReplyOrder(),
                                                               /*streams=*/nullptr, guard_.get());
    GrpcServer::Options served;
    served.guard = guard_.get();
    served.max_connections = 64;
    server_ =
        GrpcServer::Start("127.0.0.1:0", {ucx_service_.get(), exchange_service_.get()}, served)
            .value();
    eavesdropper_.PassOnTo(server_->address());
  }

  absl::Status Push(ParameterEndpoint& endpoint) {
    OneShot<ExchangeReply> reply(&clock_);
    endpoint.Exchange(
        MakeTestRequest(0, Step(0), std::nullopt, 1.0f, /*elements=*/4), [] {},
        [&reply](ExchangeReply answer) { reply.Set(std::move(answer)); });
    return reply.Wait().status;
  }
  uint64_t AppliedPushes() {
    OneShot<uint64_t> version(&clock_);
    host_->Exchange(
        MakeTestRequest(0, std::nullopt, Step(0), 0, /*elements=*/4), [] {},
        [&version](const ExchangeReply& reply) { version.Set(reply.version); });
    return version.Wait();
  }

  RealClock clock_;
  Eavesdropper eavesdropper_;
  SecurityPointer security_;
  std::unique_ptr<CallGuard> guard_;
  std::unique_ptr<ShardHost> host_ =
      MakeTestHost(ConsistencyMode::kAsync, /*num_workers=*/1, /*elements=*/4);
  std::unique_ptr<UcxTransport> ucx_;
  std::unique_ptr<UcxTransport> client_ucx_;
  std::unique_ptr<UcxTransport::Listener> listener_;
  std::unique_ptr<GrpcUcxService> ucx_service_;
  std::unique_ptr<GrpcParameterService> exchange_service_;
  std::unique_ptr<GrpcServer> server_;
};

TEST_F(ReplayTest, APushThatIsHeardAndRepeatedIsRefused) {
  GrpcEndpoint endpoint(eavesdropper_.address(), &clock_, security_);
  ASSERT_TRUE(Push(endpoint).ok());
  const std::string heard = eavesdropper_.heard();
  ASSERT_THAT(heard, HasSubstr("ParameterService/Exchange"));
  EXPECT_EQ(guard_->refused_calls(), 0);
  EXPECT_THAT(Repeat(server_->address(), heard), HasSubstr("got a used one"));
  EXPECT_EQ(guard_->refused_calls(), 1);
  EXPECT_EQ(AppliedPushes(), 1u);
}

TEST_F(ReplayTest, AGreetingThatIsHeardAndRepeatedOpensNoConnectionOverUcx) {
  const auto endpoint = client_ucx_->Connect(eavesdropper_.address());
  ASSERT_TRUE(Push(*endpoint).ok());
  const std::string heard = eavesdropper_.heard();
  ASSERT_THAT(heard, HasSubstr("UcxService/OpenUcx"));
  EXPECT_THAT(heard, Not(HasSubstr(security_->tokens()->own())));
  EXPECT_THAT(Repeat(server_->address(), heard), HasSubstr("got a used one"));
  EXPECT_EQ(guard_->refused_calls(), 1);
}

}  // namespace
}  // namespace capstan
