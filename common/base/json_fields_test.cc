#include "common/base/json_fields.h"

#include <gtest/gtest.h>

#include <string>

namespace capstan {
namespace {

std::string Nested(int depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(JsonFieldsTest, WhatIsNoJsonIsDiscarded) {
  for (const char* text : {"", "{", "[1,]", "\"\xff\"", "1 2"}) {
    EXPECT_TRUE(ParseJson(text).is_discarded()) << text;
  }
}

TEST(JsonFieldsTest, WhatLiesTooDeepIsDiscarded) {
  EXPECT_EQ(ParseJson(Nested(100)).dump(), Nested(100));
  EXPECT_TRUE(ParseJson(Nested(102)).is_discarded());
  EXPECT_TRUE(ParseJson("{\"a\": " + Nested(1'000'000) + "}").is_discarded());
}

TEST(JsonFieldsTest, AFieldOfAnotherTypeIsAsGoodAsNone) {
  const nlohmann::json object =
      ParseJson(R"({"a": 1.5, "b": 7, "c": "text", "d": -1, "e": 1e300})");
  EXPECT_EQ(NumberIn(object, "a"), 1.5);
  EXPECT_EQ(NumberIn(object, "c"), 0);
  EXPECT_EQ(NumberIn(object, "f"), 0);
  EXPECT_EQ(CountIn(object, "b"), 7);
  for (const char* name : {"a", "c", "d", "e", "f"}) EXPECT_EQ(CountIn(object, name), 0) << name;
  EXPECT_EQ(TextIn(object, "c"), "text");
  EXPECT_EQ(TextIn(object, "b"), "");
}

}  // namespace
}  // namespace capstan
