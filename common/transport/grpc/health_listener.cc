#include "common/transport/grpc/health_listener.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/transport/grpc/probe_answer.h"

namespace capstan {
namespace {

// Most bytes from one gRPC connection. A client that asks every second lives from this for hours,
// and connects again. gRPC 1.51 reads a header to its end, however long it is, and takes several
// times its size of memory.
constexpr uint64_t kMaxGrpcBytes = 256 << 10;

uint64_t BytesReceived(int socket) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size);
  return info.tcpi_bytes_received;
}

// Both ends have shut the connection down.
bool HasEnded(int socket) {
  pollfd state = {socket, /*events=*/0, /*revents=*/0};
  return poll(&state, 1, /*timeout=*/0) == 1 && (state.revents & POLLHUP) != 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HealthListener>> HealthListener::Start(const Options& options) {
  std::unique_ptr<HealthListener> listener(new HealthListener(options));
  HttpListener::Options http;
  http.flag = "--health_listen";
  http.purpose = "answers probes";
  http.listen = options.listen;
  http.clock = options.clock;
  http.answer = [readiness = options.readiness](absl::string_view received) {
    return AnswerProbe(received, readiness);
  };
  http.request_time = options.request_time;
  http.http2 = listener.get();
  ASSIGN_OR_RETURN(listener->http_, HttpListener::Start(std::move(http)));
  return listener;
}

HealthListener::HealthListener(const Options& options)
    : server_({options.clock, options.readiness, options.greeting_time, options.idle_time}) {}

HealthListener::~HealthListener() {
  http_ = nullptr;  // Its thread uses grpc_.
  for (const int fd : grpc_) {
    shutdown(fd, SHUT_RDWR);
    close(fd);
  }
}

bool HealthListener::Take(int socket) {
  const bool is_full = grpc_.size() >= kMaxGrpcConnections;
  const int duplicate = is_full ? -1 : fcntl(socket, F_DUPFD_CLOEXEC, 0);
  if (duplicate < 0) return false;
  grpc_.insert(duplicate);
  server_.Take(socket);
  return true;
}

void HealthListener::Tick() {
  ForgetEnded();
  CloseLong();
  if (!grpc_.empty()) server_.TellWatchers();
}

void HealthListener::CloseLong() {
  const linger reset = {/*l_onoff=*/1, /*l_linger=*/0};
  for (const int duplicate : grpc_) {
    if (BytesReceived(duplicate) <= kMaxGrpcBytes) continue;
    // gRPC notices the shutdown and closes its socket, which resets the connection.
    setsockopt(duplicate, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    shutdown(duplicate, SHUT_RDWR);
  }
}

void HealthListener::ForgetEnded() {
  for (auto next = grpc_.begin(); next != grpc_.end();) {
    const auto duplicate = next++;
    if (!HasEnded(*duplicate)) continue;
    close(*duplicate);
    grpc_.erase(duplicate);
  }
}

}  // namespace capstan
