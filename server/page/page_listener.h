#ifndef SERVER_PAGE_PAGE_LISTENER_H_
#define SERVER_PAGE_PAGE_LISTENER_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/transport/trust/job_keys.h"
#include "server/page/http_connection.h"
#include "server/page/page_message.h"
#include "server/page/server_tls.h"

namespace capstan {

// A port for browsers: HTTP/1, over TLS if there are keys. A few threads answer. Strangers may
// reach the port, so everything has a bound: the number of connections, the time of each request,
// and its bytes (http_text.h).
class PageListener {
 public:
  struct Options {
    std::string listen;      // Required: host:port; port 0 chooses a free port
    Clock* clock = nullptr;  // Required; outlives the listener
    // Keys for TLS, asked for at each connection. Null: plaintext.
    std::function<std::optional<TlsKeys>()> tls;
    // Required; on any of the listener's threads.
    std::function<PageAnswer(const PageRequest&)> answer;
    // From the first byte of a request, or of a connection, to its last.
    absl::Duration request_time = absl::Seconds(5);
    // From there on for the answer.
    absl::Duration answer_time = absl::Seconds(10);
    // For the next request on the same connection. Shorter if others wait for a thread: then no
    // request follows.
    absl::Duration idle_time = absl::Seconds(5);
  };

  static constexpr size_t kThreads = 8;
  // Further connections are closed at once.
  static constexpr size_t kMaxConnections = 48;

  // INVALID_ARGUMENT: `listen` is malformed. UNAVAILABLE: the port is in use, or the host is not of
  // this machine. Both name --http_listen.
  static absl::StatusOr<std::unique_ptr<PageListener>> Start(Options options);
  // Closes all connections. Waits for running answers.
  ~PageListener();
  PageListener(const PageListener&) = delete;
  PageListener& operator=(const PageListener&) = delete;

  // host:port, with the actual port.
  const std::string& address() const { return address_; }

 private:
  PageListener(Options options, int listener, std::string address);

  void Accept();
  void Work();
  // Nothing: the listener stops.
  std::optional<int> TakeConnection();
  // Whether the thread of a connection is needed elsewhere.
  bool IsThreadWanted();
  void Serve(int socket);
  // Whether the client has begun another request.
  bool AwaitRequest(HttpConnection& connection);
  // Whether the connection may go on.
  bool ServeRequest(HttpConnection& connection);

  const Options options_;
  const int listener_;
  const std::string address_;
  const int stop_;                  // eventfd: readable once the listener stops
  std::unique_ptr<ServerTls> tls_;  // null: plaintext

  Mutex mu_;
  CondVar changed_;
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  size_t connections_ ABSL_GUARDED_BY(mu_) = 0;   // waiting and served
  std::deque<int> waiting_ ABSL_GUARDED_BY(mu_);  // sockets

  std::vector<std::thread> threads_;  // Last, because they use all members above.
};

}  // namespace capstan

#endif  // SERVER_PAGE_PAGE_LISTENER_H_
