#ifndef SERVER_PAGE_HTTP_CONNECTION_H_
#define SERVER_PAGE_HTTP_CONNECTION_H_

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/transport/trust/openssl_objects.h"

namespace capstan {

// One connection of a browser, over TCP or TLS. Each call ends at the latest at the deadline, or
// when its owner stops, and fails then. Owns the socket. Not thread-safe.
class HttpConnection {
 public:
  // `socket` does not block. `stop` is a file descriptor that becomes readable when the owner
  // stops. `clock` outlives the connection. `tls`: null means plaintext.
  HttpConnection(int socket, int stop, Clock& clock, std::shared_ptr<SSL_CTX> tls);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  void set_deadline(absl::Time deadline) { deadline_ = deadline; }

  // False: TLS does not come about.
  bool ShakeHands();
  // Whether there is something to read at `until`, or an end of the connection.
  bool AwaitBytes(absl::Time until);
  // Reads up to and with the empty line after the headers. Nothing: the client has ended, or is
  // too slow. A longer head than `most_bytes` is cut, without an empty line at its end.
  std::optional<std::string> ReadHead(size_t most_bytes);
  // Reads what came after the head, and then from the client. Bytes; 0 or less: the end.
  ssize_t Read(char* bytes, size_t size);
  // Bytes; 0 or less: the end.
  ssize_t Write(const char* bytes, size_t size);
  bool WriteAll(absl::string_view bytes);
  // Says that nothing more comes, and reads a little on, so that the client gets the answer.
  void End();

 private:
  bool Wait(short events);
  // Read or write once. `wants` is then what to wait for; 0: nothing.
  ssize_t TryRead(char* bytes, size_t size, short& wants);
  ssize_t TryWrite(const char* bytes, size_t size, short& wants);
  short Wanted(int result) const;

  const int socket_;
  const int stop_;
  Clock& clock_;
  const std::shared_ptr<SSL_CTX> context_;
  const SslPointer ssl_;
  absl::Time deadline_ = absl::InfinitePast();
  std::string buffered_;  // read, but not given away yet
};

}  // namespace capstan

#endif  // SERVER_PAGE_HTTP_CONNECTION_H_
