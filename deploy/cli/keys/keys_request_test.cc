#include "deploy/cli/keys/keys_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Flags = std::map<std::string, std::string>;

std::string ErrorOf(const Flags& flags) {
  const absl::StatusOr<KeysRequest> request = ReadKeysRequest(flags);
  EXPECT_TRUE(absl::IsInvalidArgument(request.status())) << request.status();
  return std::string(request.status().message());
}

TEST(KeysRequestTest, AFolderIsEnough) {
  const KeysRequest request = ReadKeysRequest({{"out", "keys"}}).value();
  EXPECT_EQ(request.out, "keys");
  EXPECT_EQ(request.from, "");
  EXPECT_FALSE(request.right.has_value());
  EXPECT_THAT(request.hosts, IsEmpty());
  EXPECT_EQ(request.days, 365);
}

TEST(KeysRequestTest, EachHostOfTheListIsTakenOnce) {
  const KeysRequest request =
      ReadKeysRequest({{"out", "keys"}, {"hosts", "b,*.a.org,10.0.0.1,b,::1"}, {"days", "36500"}})
          .value();
  EXPECT_THAT(request.hosts, ElementsAre("b", "*.a.org", "10.0.0.1", "::1"));
  EXPECT_EQ(request.days, 36500);
}

TEST(KeysRequestTest, FromGoesWithARightOrWithHosts) {
  EXPECT_EQ(ReadKeysRequest({{"out", "b"}, {"from", "a"}, {"right", "look"}})->right, Right::kLook);
  EXPECT_EQ(ReadKeysRequest({{"out", "b"}, {"from", "a"}, {"right", "read"}})->right, Right::kRead);
  EXPECT_EQ(ReadKeysRequest({{"out", "b"}, {"from", "a"}, {"right", "take_part"}})->right,
            Right::kTakePart);
  EXPECT_EQ(ReadKeysRequest({{"out", "b"}, {"from", "a"}, {"hosts", "c"}})->from, "a");
  EXPECT_EQ(ErrorOf({{"out", "b"}, {"from", "a"}}),
            "expected --right=RIGHT or --hosts=HOST,... beside --from, got none");
  EXPECT_EQ(ErrorOf({{"out", "b"}, {"from", "a"}, {"right", "take_part"}, {"hosts", "c"}}),
            "expected --right=RIGHT or --hosts=HOST,... beside --from, got both; who listens at "
            "hosts needs the full token");
  EXPECT_EQ(ErrorOf({{"out", "b"}, {"right", "look"}}),
            "flag --from: expected DIR, the folder with the full token, beside --right, got none");
}

TEST(KeysRequestTest, WrongValuesAreNamed) {
  EXPECT_EQ(ErrorOf({}), "flag --out: expected DIR, the folder to make, got none");
  EXPECT_THAT(ErrorOf({{"out", ""}}), HasSubstr("flag --out"));
  EXPECT_THAT(ErrorOf({{"out", "b"}, {"from", ""}}), HasSubstr("flag --from: expected DIR"));
  for (const char* const right : {"operate", "Look", ""}) {
    EXPECT_THAT(ErrorOf({{"out", "b"}, {"from", "a"}, {"right", right}}),
                HasSubstr("flag --right: expected look, read or take_part, got "));
  }
  for (const char* const days : {"0", "-1", "36501", "1.5", "x", ""}) {
    EXPECT_THAT(ErrorOf({{"out", "b"}, {"days", days}}),
                HasSubstr("flag --days: expected a number from 1 to 36500, got "));
  }
  for (const char* const hosts : {"", "a,", "a b", "10.0.0.1:80"}) {
    EXPECT_THAT(ErrorOf({{"out", "b"}, {"hosts", hosts}}),
                HasSubstr("flag --hosts: expected a host such as node.example.org"));
  }
}

}  // namespace
}  // namespace capstan
