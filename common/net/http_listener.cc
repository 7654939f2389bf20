#include "common/net/http_listener.h"

#include <glog/logging.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/net/listening_socket.h"

namespace capstan {
namespace {

// Values of epoll_wait's timeout. While a connection is open, the thread looks at the time at each
// tick.
constexpr int kNow = 0;
constexpr int kUntilAnEvent = -1;
constexpr int kTickMilliseconds = 100;

constexpr size_t kReadBytes = 4 << 10;
// A client that sends more than this after its last request is cut off.
constexpr size_t kMaxIgnoredBytes = 64 << 10;
// What the kernel keeps of a connection until it is read.
constexpr int kSocketBytes = 32 << 10;

// OpenSSL writes into connections that clients have closed.
void BlockBrokenPipe() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpListener>> HttpListener::Start(Options options) {
  ASSIGN_OR_RETURN(const ListenAddress wanted, ParseListenAddress(options.flag, options.listen));
  const ListeningSocket listening = ListenAt(wanted);
  if (listening.socket < 0) return CannotListen(options.flag, options.listen);
  auto listener = std::unique_ptr<HttpListener>(new HttpListener(
      std::move(options), listening.socket, absl::StrCat(wanted.host, ":", listening.port)));
  if (listener->events_ < 0 || listener->wake_ < 0) {
    return absl::UnavailableError(absl::StrCat(
        listener->options_.flag, ": expected a free file descriptor; raise the limit (ulimit -n)"));
  }
  listener->Begin();
  return listener;
}

HttpListener::HttpListener(Options options, int listener, std::string address)
    : options_(std::move(options)),
      listener_(listener),
      address_(std::move(address)),
      events_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void HttpListener::Begin() {
  if (options_.tls != nullptr) tls_ = std::make_unique<ServerTls>(options_.flag, options_.tls);
  if (options_.answer_threads > 0) {
    answerers_ = std::make_unique<BackgroundThreads>(options_.clock, options_.answer_threads);
  }
  for (const int fd : {listener_, wake_}) Watch(fd, EPOLLIN);
  thread_ = std::thread([this] { Run(); });
}

HttpListener::~HttpListener() {
  {
    MutexLock lock(&mu_);
    is_stopping_ = true;
  }
  if (thread_.joinable()) {
    eventfd_write(wake_, 1);
    thread_.join();
  }
  answerers_ = nullptr;
  for (const int fd : {listener_, events_, wake_}) {
    if (fd >= 0) close(fd);
  }
}

void HttpListener::Watch(int fd, uint32_t event_kinds) {
  epoll_event event = {};
  event.events = event_kinds | EPOLLET;
  event.data.fd = fd;
  epoll_ctl(events_, EPOLL_CTL_ADD, fd, &event);
}

void HttpListener::Run() {
  BlockBrokenPipe();
  int timeout = kUntilAnEvent;
  while (true) {
    epoll_event event = {};
    event.data.fd = -1;
    epoll_wait(events_, &event, 1, timeout);
    if (event.data.fd == wake_ && !TakeAnswers()) return;
    const auto connection = connections_.find(event.data.fd);
    if (connection != connections_.end()) GoOn(connection);
    CloseLate();
    timeout = Accept();
  }
}

int HttpListener::Accept() {
  const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (socket < 0) {
    // Without file descriptors or memory the connection stays in the kernel's queue. No event tells
    // when accepting works again.
    const bool is_idle = errno == EAGAIN && connections_.empty();
    return is_idle ? kUntilAnEvent : kTickMilliseconds;
  }
  const bool has_room = MakeRoom();
  SslPointer tls = tls_ == nullptr || !has_room ? nullptr : tls_->NewConnection();
  const bool has_keys = tls_ == nullptr || tls != nullptr;
  auto stream = std::make_unique<HttpConnection>(socket, std::move(tls));
  if (!has_keys || !has_room) return kNow;
  setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &kSocketBytes, sizeof(kSocketBytes));
  Connection& connection = connections_[socket];
  connection.stream = std::move(stream);
  connection.deadline = options_.clock->Now() + kRequestTime;
  Watch(socket, EPOLLIN | EPOLLOUT | EPOLLRDHUP);
  return kNow;
}

bool HttpListener::MakeRoom() {
  if (connections_.size() < kMaxConnections) return true;
  const auto late = std::min_element(
      connections_.begin(), connections_.end(),
      [](const auto& a, const auto& b) { return a.second.deadline < b.second.deadline; });
  if (late->second.is_answering) return false;
  connections_.erase(late);
  return true;
}

void HttpListener::CloseLate() {
  const absl::Time now = options_.clock->Now();
  for (auto next = connections_.begin(); next != connections_.end();) {
    const auto connection = next++;
    if (connection->second.deadline <= now) connections_.erase(connection);
  }
}

bool HttpListener::TakeAnswers() {
  eventfd_t count = 0;
  eventfd_read(wake_, &count);
  std::vector<MadeAnswer> made;
  {
    MutexLock lock(&mu_);
    if (is_stopping_) return false;
    made.swap(made_);
  }
  for (MadeAnswer& answer : made) {
    // It is there: nothing closes a connection while its answer is made.
    const auto connection = connections_.find(answer.socket);
    CHECK(connection != connections_.end());
    connection->second.is_answering = false;
    connection->second.answer = std::move(answer.text);
    connection->second.deadline = options_.clock->Now() + kAnswerTime;
    GoOn(connection);
  }
  return true;
}

void HttpListener::GoOn(Connections::iterator connection) {
  if (!Send(connection->second) || !Read(connection->second)) connections_.erase(connection);
}

bool HttpListener::Send(Connection& connection) {
  if (connection.answer.empty()) return true;
  while (connection.sent_bytes < connection.answer.size()) {
    const ssize_t size = connection.stream->Write(
        absl::string_view(connection.answer).substr(connection.sent_bytes));
    if (size <= 0) return size == 0;
    connection.sent_bytes += size;
  }
  std::string().swap(connection.answer);  // frees its memory
  connection.sent_bytes = 0;
  if (connection.is_last) {
    // Closing with unread bytes resets the connection. Then the client may lose the answer. So this
    // side reads to the client's end.
    connection.deadline = std::min(connection.deadline, options_.clock->Now() + kEndTime);
    connection.stream->End();
  } else {
    connection.deadline = options_.clock->Now() + kRequestTime;
  }
  return true;
}

bool HttpListener::Read(Connection& connection) {
  char bytes[kReadBytes];
  while (connection.answer.empty() && !connection.is_answering) {
    std::optional<ReceivedRequest> request = ReadRequest(connection.received);
    if (request.has_value()) {
      BeginAnswer(connection, *std::move(request));
      continue;
    }
    const ssize_t size = connection.stream->Read(bytes, sizeof(bytes));
    if (size <= 0) return size == 0;
    if (!connection.is_last) {
      connection.received.append(bytes, size);
      continue;
    }
    connection.ignored_bytes += size;
    if (connection.ignored_bytes > kMaxIgnoredBytes) return false;
  }
  return true;
}

void HttpListener::BeginAnswer(Connection& connection, ReceivedRequest received) {
  const bool is_full = connections_.size() >= kMaxConnections;
  connection.is_last = received.is_last || is_full || !options_.keeps_connections;
  connection.received.erase(0, connection.is_last ? connection.received.npos : received.size);
  connection.is_answering = true;
  connection.deadline = absl::InfiniteFuture();
  const auto make = [this, received = std::move(received), is_last = connection.is_last,
                     socket = connection.stream->socket()] {
    const HttpRequest& request = received.request;
    const HttpAnswer made =
        received.refusal.has_value() ? *received.refusal : options_.answer(request);
    std::string text = AnswerText(made, /*has_body=*/request.method != "HEAD", is_last);
    {
      MutexLock lock(&mu_);
      made_.push_back({socket, std::move(text)});
    }
    eventfd_write(wake_, 1);
  };
  if (answerers_ == nullptr) return make();
  answerers_->Add(make);
}

}  // namespace capstan
