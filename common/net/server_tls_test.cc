#include "common/net/server_tls.h"

#include <gtest/gtest.h>

#include <optional>

#include "common/net/test_tls_keys.h"

namespace capstan {
namespace {

TEST(ServerTlsTest, AContextIsMadeOfKeysAndOfNothingElse) {
  const TlsKeys keys = MakeTlsKeys("first");
  EXPECT_TRUE(MakeServerContext(keys).ok());
  for (const TlsKeys& wrong : {TlsKeys{}, TlsKeys{"nothing", keys.authorities},
                               TlsKeys{keys.authorities, keys.authorities}}) {
    EXPECT_TRUE(absl::IsInternal(MakeServerContext(wrong).status()));
  }
}

TEST(ServerTlsTest, TheContextStaysUntilThereAreOtherKeysThatFit) {
  std::optional<TlsKeys> keys;
  ServerTls tls("--some_listen", [&keys] { return keys; });
  EXPECT_EQ(tls.NewConnection(), nullptr);
  keys = MakeTlsKeys("first");
  const SslPointer first = tls.NewConnection();
  ASSERT_NE(first, nullptr);
  const auto has_first_keys = [&] {
    return SSL_get_SSL_CTX(tls.NewConnection().get()) == SSL_get_SSL_CTX(first.get());
  };
  EXPECT_TRUE(has_first_keys());
  keys = TlsKeys{"nothing", "nothing"};
  EXPECT_TRUE(has_first_keys());
  keys = MakeTlsKeys("second");
  EXPECT_FALSE(has_first_keys());
}

}  // namespace
}  // namespace capstan
