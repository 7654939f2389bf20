#ifndef COMMON_NET_CONNECTION_GATE_H_
#define COMMON_NET_CONNECTION_GATE_H_

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace capstan {

// A listening socket that bounds the open connections. A connection is a stranger's until it has
// had an admitted call, and unproved until that was a member's. Strangers have little time and few
// bytes. Unproved connections take no place of proved ones: if there are too many, the oldest one
// of the host that has most of them is closed. So a flood shuts out no other host. Has its own
// thread. Open and Close must not run at the same time; all else is thread-safe.
class ConnectionGate {
 public:
  struct Limits {
    uint32_t proved;    // most connections of members
    uint32_t unproved;  // most other ones; above 0
    // A stranger's connection is closed after this time, or if it has sent more bytes.
    absl::Duration stranger_time = absl::Seconds(10);
    uint64_t stranger_bytes = 8 << 20;
    // All strangers together may send this times `unproved`, or what one may if that is more.
    // Beyond, the oldest one of the host that has sent most is closed.
    uint64_t mean_stranger_bytes = 8 << 20;
  };
  // Takes over a connection. Must call shutdown() on it before close(): the gate notices only that.
  using Taker = std::function<void(int socket)>;

  // Listens at the first free address of `host`. Port 0 chooses a free port. Null: the port is in
  // use, or the host is not of this machine.
  static std::unique_ptr<ConnectionGate> Listen(const std::string& host, int port, Limits limits);
  // As Close.
  ~ConnectionGate();
  ConnectionGate(const ConnectionGate&) = delete;
  ConnectionGate& operator=(const ConnectionGate&) = delete;

  int port() const { return port_; }
  // Starts to accept connections. `take` runs on the gate's thread.
  void Open(Taker take);

  // Accepts no more connections. Those that are open stay.
  void Close();

  // Says that the connection from `peer`, as gRPC names it ("ipv4:127.0.0.1:40000"), has had an
  // admitted call, a member's or not. False: there are Limits::proved of members already.
  bool Prove(const std::string& peer, bool is_member);

  struct Counts {
    // Open now.
    uint32_t proved = 0;
    uint32_t unproved = 0;
    // Ended without an admitted call, because:
    int64_t time = 0;      // they had their time
    int64_t bytes = 0;     // they, or all together, sent too much
    int64_t too_many = 0;  // others needed the place
    int64_t ended = 0;     // the other side, or gRPC, ended them

    int64_t strangers() const { return time + bytes + too_many + ended; }
  };
  // Each ended one is one line in the log, at most one a second.
  Counts counts() const;

 private:
  // A taken connection.
  struct Connection {
    int duplicate;  // of its socket
    std::string peer;
    std::string host;
    absl::Time begin;
    bool is_stranger = true;
    bool is_proved = false;
    uint64_t bytes = 0;  // sent by a stranger, when CloseStrangers has looked
  };
  using Connections = std::list<Connection>;  // the oldest first

  ConnectionGate(int listener, int port, Limits limits);

  void Watch(int fd, uint32_t event_kinds);
  void Run();
  // Accepts one connection. Returns the timeout of the next epoll_wait, in milliseconds.
  int TakeConnection();
  // Makes room for one more unproved connection.
  void CloseOneLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Closes strangers' connections that have had their time or bytes. Whether others are left.
  bool CloseStrangers();
  // Closes strangers' connections until the others have sent few enough bytes together.
  void CloseLargestHostsLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // `count` is the one of counts_ for the reason.
  void CloseLocked(Connections::iterator connection, int64_t Counts::*count)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Forget(int duplicate);
  void LogStranger();
  void ForgetLocked(Connections::iterator connection, int64_t Counts::*count)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  int listener_;  // -1: closed
  const int port_;
  const Limits limits_;
  const int events_;           // epoll: listener_, wake_ and duplicates
  const int wake_;             // eventfd: ends the thread
  Taker take_;                 // set before the thread starts
  std::string last_stranger_;  // the peer of an ended unproved connection, not in the log yet; used
                               // by the thread alone

  mutable Mutex mu_;
  Connections connections_ ABSL_GUARDED_BY(mu_);
  std::map<int, Connections::iterator> by_duplicate_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Connections::iterator> by_peer_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, uint32_t> unproved_of_host_ ABSL_GUARDED_BY(mu_);
  uint32_t num_proved_ ABSL_GUARDED_BY(mu_) = 0;
  Counts counts_ ABSL_GUARDED_BY(mu_);  // of ended connections alone

  std::thread thread_;
};

}  // namespace capstan

#endif  // COMMON_NET_CONNECTION_GATE_H_
