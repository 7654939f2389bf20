#include "server/page/page_listener.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/transport/grpc/listening_socket.h"
#include "server/page/http_text.h"

namespace capstan {
namespace {

constexpr char kFlag[] = "--http_listen";

// What the kernel keeps of a connection until it is read.
constexpr int kReceiveBytes = 16 << 10;
// How often a connection without a request looks whether another one waits for its thread.
constexpr absl::Duration kTick = absl::Milliseconds(100);

// The body of a request; nothing: it does not come in time.
std::optional<std::string> ReadBody(HttpConnection& connection, size_t size) {
  std::string body(size, '\0');
  for (size_t done = 0; done < size;) {
    const ssize_t read = connection.Read(&body[done], size - done);
    if (read <= 0) return std::nullopt;
    done += read;
  }
  return body;
}

// OpenSSL writes into connections that clients have closed.
void BlockBrokenPipe() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PageListener>> PageListener::Start(Options options) {
  ASSIGN_OR_RETURN(const ListenAddress wanted, ParseListenAddress(kFlag, options.listen));
  const ListeningSocket listening = ListenAt(wanted);
  if (listening.socket < 0) return CannotListen(kFlag, options.listen);
  std::unique_ptr<PageListener> listener(new PageListener(
      std::move(options), listening.socket, absl::StrCat(wanted.host, ":", listening.port)));
  for (size_t i = 0; i < kThreads; ++i) {
    listener->threads_.emplace_back([listener = listener.get()] { listener->Work(); });
  }
  listener->threads_.emplace_back([listener = listener.get()] { listener->Accept(); });
  return listener;
}

PageListener::PageListener(Options options, int listener, std::string address)
    : options_(std::move(options)),
      listener_(listener),
      address_(std::move(address)),
      stop_(eventfd(0, EFD_CLOEXEC)) {
  if (options_.tls != nullptr) tls_ = std::make_unique<ServerTls>(options_.tls);
}

PageListener::~PageListener() {
  eventfd_write(stop_, 1);
  {
    MutexLock lock(&mu_);
    is_stopping_ = true;
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
  for (const int socket : waiting_) close(socket);
  for (const int fd : {listener_, stop_}) close(fd);
}

void PageListener::Accept() {
  while (true) {
    pollfd awaited[] = {{listener_, POLLIN, 0}, {stop_, POLLIN, 0}};
    poll(awaited, 2, /*timeout=*/-1);
    if (awaited[1].revents != 0) return;
    const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) {
      // Without file descriptors or memory the connection stays in the kernel's queue.
      if (errno != EAGAIN) poll(&awaited[1], 1, absl::ToInt64Milliseconds(kTick));
      continue;
    }
    setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &kReceiveBytes, sizeof(kReceiveBytes));
    MutexLock lock(&mu_);
    if (connections_ >= kMaxConnections) {
      close(socket);
      continue;
    }
    ++connections_;
    waiting_.push_back(socket);
    changed_.NotifyAll();
  }
}

void PageListener::Work() {
  BlockBrokenPipe();
  while (const std::optional<int> socket = TakeConnection()) {
    Serve(*socket);
    MutexLock lock(&mu_);
    --connections_;
  }
}

std::optional<int> PageListener::TakeConnection() {
  MutexLock lock(&mu_);
  while (!is_stopping_ && waiting_.empty()) {
    options_.clock->WaitUntil(mu_, changed_, absl::InfiniteFuture());
  }
  if (is_stopping_) return std::nullopt;
  const int socket = waiting_.front();
  waiting_.pop_front();
  return socket;
}

bool PageListener::IsThreadWanted() {
  MutexLock lock(&mu_);
  return is_stopping_ || !waiting_.empty();
}

void PageListener::Serve(int socket) {
  std::shared_ptr<SSL_CTX> context = tls_ == nullptr ? nullptr : tls_->Context();
  const bool has_keys = tls_ == nullptr || context != nullptr;
  HttpConnection connection(socket, stop_, *options_.clock, std::move(context));
  if (!has_keys || !AwaitRequest(connection)) return;
  connection.set_deadline(options_.clock->Now() + options_.request_time);
  if (!connection.ShakeHands()) return;
  while (AwaitRequest(connection)) {
    if (!ServeRequest(connection)) return connection.End();
  }
}

bool PageListener::AwaitRequest(HttpConnection& connection) {
  const absl::Time begin = options_.clock->Now();
  for (absl::Time now = begin; now < begin + options_.idle_time; now = options_.clock->Now()) {
    if (connection.AwaitBytes(now + kTick)) return true;
    if (IsThreadWanted()) return false;
  }
  return false;
}

bool PageListener::ServeRequest(HttpConnection& connection) {
  connection.set_deadline(options_.clock->Now() + options_.request_time);
  const std::optional<std::string> text = connection.ReadHead(kMaxHeadBytes);
  if (!text.has_value()) return false;
  RequestHead head;
  if (const auto problem = ParseHead(*text, &head)) {
    PageAnswer refusal;
    refusal.status = problem->status;
    refusal.body = problem->text;
    connection.WriteAll(AnswerText(refusal, /*has_body=*/true, /*is_last=*/true));
    return false;
  }
  const std::optional<std::string> body = ReadBody(connection, head.body_bytes);
  if (!body.has_value()) return false;
  head.request.fields = ParseForm(*body);
  const PageAnswer answer = options_.answer(head.request);
  connection.set_deadline(options_.clock->Now() + options_.answer_time);
  const bool has_body = head.request.method != "HEAD";
  // A client that always has another request would keep the thread.
  const bool is_last = head.is_last || IsThreadWanted();
  return connection.WriteAll(AnswerText(answer, has_body, is_last)) && !is_last;
}

}  // namespace capstan
