#ifndef COMMON_TRANSPORT_GRPC_CONNECTION_GATE_H_
#define COMMON_TRANSPORT_GRPC_CONNECTION_GATE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>

namespace capstan {

// A listening socket with at most `max_connections` open connections. Closes each further one with
// the reason in an HTTP/2 GOAWAY frame. Has its own thread. Use it from one thread.
class ConnectionGate {
 public:
  // Takes over a connection. Must call shutdown() on it before close(): the gate notices only that.
  using Taker = std::function<void(int socket)>;

  // Listens at the first free address of `host`. Port 0 chooses a free port. Null: the port is in
  // use, or the host is not of this machine.
  static std::unique_ptr<ConnectionGate> Listen(const std::string& host, int port,
                                                uint32_t max_connections);
  // Stops listening. Connections stay open.
  ~ConnectionGate();
  ConnectionGate(const ConnectionGate&) = delete;
  ConnectionGate& operator=(const ConnectionGate&) = delete;

  int port() const { return port_; }
  // Starts to accept connections. `take` runs on the gate's thread.
  void Open(Taker take);

 private:
  ConnectionGate(int listener, int port, uint32_t max_connections);

  void Watch(int fd, uint32_t event_kinds);
  void Run();
  // Accepts or refuses one connection. Returns the timeout of the next epoll_wait, in milliseconds.
  int TakeConnection();
  void Refuse(int connection, const std::string& reason);
  void Forget(int duplicate);

  const int listener_;
  const int port_;
  const uint32_t max_connections_;
  const int events_;         // epoll: listener_, wake_ and open_
  const int wake_;           // eventfd: ends the thread
  Taker take_;               // set before the thread starts
  std::set<int> open_;       // duplicates of the taken connections; used by the thread alone
  std::deque<int> refused_;  // the latest refused connections; used by the thread alone
  std::thread thread_;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_GRPC_CONNECTION_GATE_H_
