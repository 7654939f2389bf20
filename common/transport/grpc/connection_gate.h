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

// A listening socket that lets at most `max_connections` be open at once. One more is told why, in
// the words of HTTP/2, and closed. To be used by one thread; has one of its own.
class ConnectionGate {
 public:
  // Takes over a connection: closes it with shutdown, by which the gate knows that it has ended.
  using Taker = std::function<void(int socket)>;

  // Port 0 takes a free one. Listens at the first address of `host` that can be taken. Null when
  // the port is in use or the host is not of this machine.
  static std::unique_ptr<ConnectionGate> Listen(const std::string& host, int port,
                                                uint32_t max_connections);
  // Nothing is taken any more; what is open stays so.
  ~ConnectionGate();
  ConnectionGate(const ConnectionGate&) = delete;
  ConnectionGate& operator=(const ConnectionGate&) = delete;

  int port() const { return port_; }
  // From now on connections are taken, on the gate's thread.
  void Open(Taker take);

 private:
  ConnectionGate(int listener, int port, uint32_t max_connections);

  void Watch(int fd, uint32_t event_kinds);
  void Run();
  // Returns the milliseconds after which it may be called again, as epoll_wait takes them.
  int TakeConnection();
  void Refuse(int connection, const std::string& reason);
  void Forget(int duplicate);

  const int listener_;
  const int port_;
  const uint32_t max_connections_;
  const int events_;  // epoll: the listener, what wakes the thread for its end, and connections
  const int wake_;
  Taker take_;               // set before the thread starts
  std::set<int> open_;       // duplicates of what was taken; used by the thread alone
  std::deque<int> refused_;  // the latest ones, half open; used by the thread alone
  std::thread thread_;
};

}  // namespace capstan

#endif  // COMMON_TRANSPORT_GRPC_CONNECTION_GATE_H_
