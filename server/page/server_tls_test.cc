#include "server/page/server_tls.h"

#include <gtest/gtest.h>

#include <optional>

#include "server/page/test_tls_keys.h"

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
  ServerTls tls([&keys] { return keys; });
  EXPECT_EQ(tls.Context(), nullptr);
  keys = MakeTlsKeys("first");
  const auto first = tls.Context();
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(tls.Context(), first);
  keys = TlsKeys{"nothing", "nothing"};
  EXPECT_EQ(tls.Context(), first);
  keys = MakeTlsKeys("second");
  EXPECT_NE(tls.Context(), first);
}

}  // namespace
}  // namespace capstan
