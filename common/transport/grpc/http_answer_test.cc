#include "common/transport/grpc/http_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace capstan {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The answer to a whole request, or "nothing".
std::string AnswerTo(const std::string& request) {
  const HttpPath paths[] = {{"/one",
                             [] {
                               return HttpAnswer{"200 OK", "text/one", "1"};
                             }},
                            {"/two", [] {
                               return HttpAnswer{"503 Service Unavailable", "text/two", "22\n"};
                             }}};
  return AnswerHttp(request, paths).value_or("nothing");
}

TEST(HttpAnswerTest, EachPathHasItsOwnAnswer) {
  EXPECT_EQ(AnswerTo("GET /one HTTP/1.1\r\n\r\n"),
            "HTTP/1.1 200 OK\r\nContent-Type: text/one\r\nContent-Length: 1\r\n"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\n1");
  EXPECT_THAT(AnswerTo("GET /two HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 503 Service"));
  EXPECT_THAT(AnswerTo("GET /two HTTP/1.1\r\n\r\n"), EndsWith("\r\n\r\n22\n"));
}

TEST(HttpAnswerTest, HeadHasTheLengthAndNoBody) {
  const std::string head = AnswerTo("HEAD /two HTTP/1.0\n\n");
  EXPECT_THAT(head, HasSubstr("Content-Length: 3\r\n"));
  EXPECT_THAT(head, EndsWith("\r\n\r\n"));
}

TEST(HttpAnswerTest, ErrorsNameThePaths) {
  EXPECT_THAT(AnswerTo("GET /three HTTP/1.1\r\n\r\n"), EndsWith("\nexpected /one or /two\n"));
  EXPECT_THAT(AnswerTo("GET /one HTTP/2.0\r\n\r\n"),
              HasSubstr("expected GET or HEAD of /one or /two over HTTP/1.0 or 1.1"));
  EXPECT_THAT(AnswerTo("PUT /one HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 405 "));
}

TEST(HttpAnswerTest, AHalfRequestIsWaitedForUpToItsBound) {
  EXPECT_EQ(AnswerTo("GET /one HTTP/1.1\r\n"), "nothing");
  EXPECT_THAT(AnswerTo("GET /one HTTP/1.1\r\n" + std::string(5000, 'x')),
              StartsWith("HTTP/1.1 400 "));
}

}  // namespace
}  // namespace capstan
