#ifndef COMMON_TRANSPORT_GRPC_HTTP_LISTENER_H_
#define COMMON_TRANSPORT_GRPC_HTTP_LISTENER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"

namespace capstan {

// A port for requests over HTTP/1, without encryption, one for each connection. One thread answers.
// Strangers may reach the port, so everything has a bound.
class HttpListener {
 public:
  struct Options {
    std::string flag;        // Required: named in errors, as "--health_listen"
    std::string purpose;     // Required: for the log, as "answers probes"
    std::string listen;      // Required: host:port; port 0 chooses a free port
    Clock* clock = nullptr;  // Required; outlives the listener
    // Required: as AnswerHttp. Quick.
    std::function<std::optional<std::string>(absl::string_view received)> answer;
    // Time from a connection's begin to its end.
    absl::Duration request_time = absl::Seconds(5);
  };

  // Further connections are closed at once.
  static constexpr size_t kMaxConnections = 64;

  // INVALID_ARGUMENT: `listen` is malformed. UNAVAILABLE: the port is in use, or the host is not of
  // this machine. Both name the flag.
  static absl::StatusOr<std::unique_ptr<HttpListener>> Start(Options options);
  // Closes all connections.
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  // host:port, with the actual port.
  const std::string& address() const { return address_; }

 private:
  struct Connection {
    absl::Time deadline;
    std::string received;   // up to the answer
    size_t bytes_read = 0;  // also after the answer
    bool is_answered = false;
    std::string unsent;  // of the answer
  };
  using Connections = std::map<int, Connection>;

  HttpListener(Options options, int listener, std::string address);

  void Watch(int fd, uint32_t event_kinds);
  void Run();
  // Accepts one connection. Returns the timeout of the next epoll_wait, in milliseconds.
  int Accept();
  void OnEvent(Connections::iterator connection);
  void Read(Connections::iterator connection);
  void Take(Connections::iterator connection, absl::string_view bytes);
  void Send(Connections::iterator connection);
  void Close(Connections::iterator connection);
  void CloseLate();

  const Options options_;
  const int listener_;
  const std::string address_;
  const int events_;         // epoll: listener_, wake_ and all connections
  const int wake_;           // eventfd: ends the thread
  Connections connections_;  // by socket; used by the thread alone
  std::thread thread_;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_GRPC_HTTP_LISTENER_H_
