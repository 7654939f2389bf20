#ifndef COMMON_NET_HTTP_LISTENER_H_
#define COMMON_NET_HTTP_LISTENER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/background_threads.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/net/http_connection.h"
#include "common/net/http_text.h"
#include "common/net/server_tls.h"
#include "common/trust/job_keys.h"

namespace capstan {

// A port for HTTP/1, over TLS if there are keys. One thread reads and writes, and waits for no
// client. Strangers may reach the port, so everything has a bound: the number of connections, the
// time of each request and of sending each answer, and the bytes of a request (http_text.h). How
// long an answer is made has none. Any thread may make and end it.
class HttpListener {
 public:
  struct Options {
    std::string flag;        // Required: named in errors, as "--health_listen"
    std::string listen;      // Required: host:port; port 0 chooses a free port
    Clock* clock = nullptr;  // Required; outlives the listener
    // Required. Quick if it has no threads.
    std::function<HttpAnswer(const HttpRequest&)> answer;
    // Threads that run `answer`. 0: the thread that reads and writes.
    size_t answer_threads = 0;
    // Whether a connection may have one request after the other.
    bool keeps_connections = false;
    // Keys for TLS, asked for at each connection; quick. Null: plaintext.
    std::function<std::optional<TlsKeys>()> tls;
  };

  // One more takes the place of the one with the least time left. While all places are taken, each
  // connection ends after its answer.
  static constexpr size_t kMaxConnections = 64;
  // From the begin of a connection, or from its last answer, to the end of a request.
  static constexpr absl::Duration kRequestTime = absl::Seconds(5);
  // From the begin of an answer until all of it is sent.
  static constexpr absl::Duration kAnswerTime = absl::Seconds(10);
  // From there until the client has ended the connection, too.
  static constexpr absl::Duration kEndTime = absl::Seconds(1);

  // INVALID_ARGUMENT: `listen` is malformed. UNAVAILABLE: the port is in use, or the host is not of
  // this machine. Both name the flag.
  static absl::StatusOr<std::unique_ptr<HttpListener>> Start(Options options);
  // Closes all connections. Waits for running answers.
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  // host:port, with the actual port.
  const std::string& address() const { return address_; }

 private:
  struct Connection {
    std::unique_ptr<HttpConnection> stream;
    absl::Time deadline;        // never, while the answer is made
    std::string received;       // of requests that have no answer yet
    bool is_answering = false;  // the answer is being made
    std::string answer;         // to be sent
    size_t sent_bytes = 0;      // of the answer
    bool is_last = false;       // the connection ends after the answer
    size_t ignored_bytes = 0;   // read after the last answer
  };
  using Connections = std::map<int, Connection>;

  struct MadeAnswer {
    int socket;
    std::string text;
  };

  HttpListener(Options options, int listener, std::string address);

  void Begin();
  void Watch(int fd, uint32_t event_kinds);
  void Run();
  // Accepts one connection. Returns the timeout of the next epoll_wait, in milliseconds.
  int Accept();
  // Whether there is room for one more connection.
  bool MakeRoom();
  void CloseLate();
  // Gives made answers to their connections. False: the listener stops.
  bool TakeAnswers();
  // Sends, reads and answers as far as nothing has to be waited for.
  void GoOn(Connections::iterator connection);
  // Both return false if the connection is over.
  bool Send(Connection& connection);
  bool Read(Connection& connection);
  void BeginAnswer(Connection& connection, ReceivedRequest received);

  const Options options_;
  const int listener_;
  const std::string address_;
  const int events_;  // epoll: listener_, wake_ and all connections
  const int wake_;    // eventfd: there are made answers, or the listener stops

  // These are used by thread_ alone.
  std::unique_ptr<ServerTls> tls_;  // null: plaintext
  Connections connections_;         // by socket

  Mutex mu_;
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<MadeAnswer> made_ ABSL_GUARDED_BY(mu_);

  std::unique_ptr<BackgroundThreads> answerers_;  // null: thread_ answers
  std::thread thread_;
};

}  // namespace capstan

#endif  // COMMON_NET_HTTP_LISTENER_H_
