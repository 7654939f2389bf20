#ifndef COMMON_NET_HTTP_CONNECTION_H_
#define COMMON_NET_HTTP_CONNECTION_H_

#include <sys/types.h>

#include <cstddef>

#include "absl/strings/string_view.h"
#include "common/trust/openssl_objects.h"

namespace capstan {

// One connection of a client, over TCP or TLS. Owns the socket. No call blocks. Not thread-safe.
class HttpConnection {
 public:
  // `socket` does not block. `tls`: the server's end; null means plaintext.
  HttpConnection(int socket, SslPointer tls);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  int socket() const { return socket_; }

  // Both return a number of bytes. 0: none now; after the next event of the socket it is worth
  // another try. Below 0: the connection is over, or TLS does not come about.
  ssize_t Read(char* bytes, size_t size);
  ssize_t Write(absl::string_view bytes);
  // Says that nothing more comes. The client may still send something.
  void End();

 private:
  // What Read and Write return for the result of a call.
  ssize_t TlsResult(int result) const;
  static ssize_t SocketResult(ssize_t result);
  // Whether the socket has bytes that SSL_read has not taken.
  bool HasUnreadBytes() const;

  const int socket_;
  const SslPointer tls_;
};

}  // namespace capstan

#endif  // COMMON_NET_HTTP_CONNECTION_H_
