#include "common/net/http_connection.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>

#include "common/net/server_tls.h"
#include "common/net/test_tls_keys.h"
#include "common/trust/job_keys.h"
#include "common/trust/openssl_objects.h"

namespace capstan {
namespace {

// More than a socket takes of what nobody reads.
constexpr size_t kLongBytes = 32 << 20;

// A connection in plaintext. The test has the other end.
class HttpConnectionTest : public testing::Test {
 protected:
  HttpConnectionTest() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    client_ = ends[1];
    connection_ = std::make_unique<HttpConnection>(ends[0], /*tls=*/nullptr);
  }
  ~HttpConnectionTest() override { close(client_); }
  void Send(const std::string& bytes) {
    EXPECT_EQ(send(client_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  int client_ = -1;
  char bytes_[10];
  std::unique_ptr<HttpConnection> connection_;
};

TEST_F(HttpConnectionTest, ReadsWhatThereIs) {
  EXPECT_EQ(connection_->Read(bytes_, sizeof(bytes_)), 0);
  Send("text");
  EXPECT_EQ(connection_->Read(bytes_, sizeof(bytes_)), 4);
  EXPECT_EQ(std::string(bytes_, 4), "text");
  EXPECT_EQ(connection_->Read(bytes_, sizeof(bytes_)), 0);
}

TEST_F(HttpConnectionTest, TheEndOfTheClientIsTheEndOfTheConnection) {
  Send("text");
  shutdown(client_, SHUT_WR);
  EXPECT_EQ(connection_->Read(bytes_, sizeof(bytes_)), 4);
  EXPECT_LT(connection_->Read(bytes_, sizeof(bytes_)), 0);
}

TEST_F(HttpConnectionTest, WritesAsMuchAsTheClientReads) {
  const std::string text(kLongBytes, 'a');
  while (connection_->Write(text) > 0) {
  }
  EXPECT_EQ(connection_->Write(text), 0);
  EXPECT_GT(recv(client_, std::string(kLongBytes, ' ').data(), kLongBytes, 0), 0);
  EXPECT_GT(connection_->Write(text), 0);
  shutdown(client_, SHUT_RDWR);
  EXPECT_LT(connection_->Write(text), 0);
}

TEST_F(HttpConnectionTest, AfterItsEndTheClientMayStillSend) {
  connection_->End();
  EXPECT_EQ(recv(client_, bytes_, sizeof(bytes_), 0), 0);
  Send("text");
  EXPECT_EQ(connection_->Read(bytes_, sizeof(bytes_)), 4);
}

// The same over TLS 1.3, after the handshake. What the client has to say comes in pieces.
class TlsConnectionTest : public HttpConnectionTest {
 protected:
  void SetUp() override {
    const int socket = dup(connection_->socket());
    connection_ = std::make_unique<HttpConnection>(socket, server_.NewConnection());
    ASSERT_NE(tls_, nullptr);
    SSL_set_bio(tls_.get(), BIO_new_socket(client_, BIO_NOCLOSE), BIO_new(BIO_s_mem()));
    // Each time it returns with what it has to send, and waits for the answer.
    for (int i = 0; i < 10 && SSL_connect(tls_.get()) != 1; ++i) EXPECT_EQ(SendInPieces(), "");
    ASSERT_TRUE(SSL_is_init_finished(tls_.get()));
    EXPECT_EQ(SendInPieces(), "");
  }
  // Sends what TLS has written, byte by byte. Returns what the connection reads meanwhile.
  std::string SendInPieces() {
    std::string heard;
    for (char byte; BIO_read(SSL_get_wbio(tls_.get()), &byte, 1) == 1;) {
      Send(std::string(1, byte));
      const ssize_t size = connection_->Read(bytes_, sizeof(bytes_));
      EXPECT_GE(size, 0);
      if (size > 0) heard.append(bytes_, size);
    }
    return heard;
  }
  // Sends it in one piece.
  void SendAtOnce() {
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(SSL_get_wbio(tls_.get()), &bytes);
    Send(std::string(bytes, size));
    EXPECT_EQ(BIO_reset(SSL_get_wbio(tls_.get())), 1);
  }
  void UpdateKeys(int times) {
    for (int i = 0; i < times; ++i) {
      ASSERT_EQ(SSL_key_update(tls_.get(), SSL_KEY_UPDATE_NOT_REQUESTED), 1);
      ASSERT_EQ(SSL_do_handshake(tls_.get()), 1);
    }
  }

  ServerTls server_{"--flag",
                    [keys = MakeTlsKeys("host")] { return std::optional<TlsKeys>(keys); }};
  const SslContextPointer context_{SSL_CTX_new(TLS_client_method())};
  const SslPointer tls_{SSL_new(context_.get())};
};

TEST_F(TlsConnectionTest, ReadsWhatComesBehindRecordsWithoutBytes) {
  UpdateKeys(3);
  ASSERT_EQ(SSL_write(tls_.get(), "text", 4), 4);
  SendAtOnce();
  EXPECT_EQ(connection_->Read(bytes_, sizeof(bytes_)), 4);
  UpdateKeys(3);
  SendAtOnce();
  EXPECT_EQ(connection_->Read(bytes_, sizeof(bytes_)), 0);
}

TEST_F(TlsConnectionTest, ReadsRecordsThatComeInPieces) {
  UpdateKeys(100);
  ASSERT_EQ(SSL_write(tls_.get(), "text", 4), 4);
  EXPECT_EQ(SendInPieces(), "text");
}

TEST_F(TlsConnectionTest, ManyRecordsWithoutBytesEndIt) {
  UpdateKeys(100);
  ASSERT_EQ(SSL_write(tls_.get(), "text", 4), 4);
  SendAtOnce();
  EXPECT_LT(connection_->Read(bytes_, sizeof(bytes_)), 0);
}

}  // namespace
}  // namespace capstan
