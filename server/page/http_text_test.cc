#include "server/page/http_text.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

// The status of the problem; 200: there is none.
int StatusOf(absl::string_view head) {
  RequestHead parsed;
  const std::optional<RequestProblem> problem = ParseHead(head, &parsed);
  return problem.has_value() ? problem->status : 200;
}

std::string Get(absl::string_view headers) {
  return absl::StrCat("GET / HTTP/1.1\r\nHost: localhost\r\n", headers, "\r\n");
}

std::string Post(absl::string_view headers) {
  return absl::StrCat("POST /login HTTP/1.1\r\nHost: localhost\r\n", headers, "\r\n");
}

constexpr char kForm[] = "Content-Type: application/x-www-form-urlencoded;charset=UTF-8\r\n";

TEST(HttpTextTest, WhatBrowsersSendPasses) {
  EXPECT_EQ(StatusOf(Get("")), 200);
  EXPECT_EQ(StatusOf(Get("Accept-Encoding: gzip, deflate, br\r\nConnection: keep-alive\r\n")), 200);
  EXPECT_EQ(StatusOf(Post(absl::StrCat(kForm, "Content-Length: 70\r\n"))), 200);
  EXPECT_EQ(StatusOf(Post("Content-Length: 0\r\n")), 200);
}

TEST(HttpTextTest, TheHeadSaysWhatIsAskedFor) {
  RequestHead parsed;
  const std::string head = absl::StrCat(
      "POST /login?a=b HTTP/1.1\r\nHOST: h:1 \r\norigin:http://h:1\r\nSec-Fetch-Site: none\r\n"
      "Cookie: a=b\r\nConnection: Close\r\nContent-Length: 3\r\n",
      kForm, "\r\n");
  ASSERT_FALSE(ParseHead(head, &parsed).has_value());
  EXPECT_EQ(parsed.request.method, "POST");
  EXPECT_EQ(parsed.request.path, "/login");
  EXPECT_EQ(parsed.request.host, "h:1");
  EXPECT_EQ(parsed.request.origin, "http://h:1");
  EXPECT_EQ(parsed.request.fetch_site, "none");
  EXPECT_EQ(parsed.request.cookie, "a=b");
  EXPECT_EQ(parsed.body_bytes, 3);
  EXPECT_TRUE(parsed.is_last);
  RequestHead other;
  ASSERT_FALSE(ParseHead(Get(""), &other).has_value());
  EXPECT_EQ(other.request.path, "/");
  EXPECT_FALSE(other.is_last);
}

TEST(HttpTextTest, FormsAreDecoded) {
  const auto fields = ParseForm("token=a%20b%2B+c&token=2&&mode&x=%4&y=%zz=1&%00=");
  EXPECT_EQ(fields.at("token"), "a b+ c");
  EXPECT_EQ(fields.at("mode"), "");
  EXPECT_EQ(fields.at("x"), "%4");
  EXPECT_EQ(fields.at("y"), "%zz=1");
  EXPECT_EQ(fields.size(), 5);
  EXPECT_TRUE(ParseForm("").empty());
}

TEST(HttpTextTest, AnAnswerHasItsHeadersAndItsLength) {
  const PageAnswer answer = {200, "text/css", "body", {{"A", "b"}}};
  EXPECT_EQ(AnswerText(answer, true, false),
            "HTTP/1.1 200 OK\r\nContent-Type: text/css\r\nContent-Length: 4\r\nA: b\r\n\r\nbody");
  EXPECT_EQ(AnswerText({404, "text/css", "no"}, false, true),
            "HTTP/1.1 404 Refused\r\nContent-Type: text/css\r\nContent-Length: 2\r\n"
            "Connection: close\r\n\r\n");
}

TEST(HttpTextTest, LinesThatAreNoHttpAreRefused) {
  EXPECT_EQ(StatusOf(""), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\n\n"), 400);
  EXPECT_EQ(StatusOf("GET /\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("PRI * HTTP/2.0\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("\x16\x03\x01\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf(Get("no colon\r\n")), 400);
  EXPECT_EQ(StatusOf(Get("Host: another\r\n")), 400);
  EXPECT_EQ(StatusOf(Get("A: b\nRange: bytes=0-\r\n")), 400);
}

TEST(HttpTextTest, NamesThatOthersReadDifferentlyAreRefused) {
  EXPECT_EQ(StatusOf(Post("Content-Length : 0\r\n")), 400);
  EXPECT_EQ(StatusOf(Get(" Transfer-Encoding: chunked\r\n")), 400);
  EXPECT_EQ(StatusOf(Get(": a\r\n")), 400);
}

TEST(HttpTextTest, CloseMayBeOneOfSeveralWords) {
  RequestHead parsed;
  ASSERT_FALSE(ParseHead(Get("Connection: keep-alive, Close\r\n"), &parsed).has_value());
  EXPECT_TRUE(parsed.is_last);
}

TEST(HttpTextTest, WhatIsTooLargeIsRefused) {
  const std::string target(kMaxTargetBytes + 1, 'a');
  EXPECT_EQ(StatusOf(absl::StrCat("GET ", target, " HTTP/1.1\r\n\r\n")), 414);
  std::string headers;
  for (int i = 0; i < kMaxHeaders; ++i) absl::StrAppend(&headers, "A: b\r\n");
  EXPECT_EQ(StatusOf(Get(headers)), 431);
  EXPECT_EQ(StatusOf(Post(absl::StrCat(kForm, "Content-Length: ", kMaxBodyBytes, "\r\n"))), 200);
  EXPECT_EQ(StatusOf(Post(absl::StrCat(kForm, "Content-Length: ", kMaxBodyBytes + 1, "\r\n"))),
            413);
  EXPECT_EQ(StatusOf(Post(absl::StrCat(kForm, "Content-Length: 99999999999999999999\r\n"))), 413);
}

TEST(HttpTextTest, BodiesWithoutAPlainLengthAreRefused) {
  EXPECT_EQ(StatusOf(Post(kForm)), 411);
  EXPECT_EQ(StatusOf(Post(absl::StrCat(kForm, "Content-Length: -1\r\n"))), 400);
  EXPECT_EQ(StatusOf(Post(absl::StrCat(kForm, "Content-Length: 1\r\nContent-Length: 2\r\n"))), 400);
  EXPECT_EQ(StatusOf(Post(absl::StrCat(kForm, "Transfer-Encoding: chunked\r\n"))), 400);
  EXPECT_EQ(StatusOf(Post(absl::StrCat(kForm, "Content-Length: 9\r\nContent-Encoding: br\r\n"))),
            400);
  EXPECT_EQ(StatusOf(Post("Content-Length: 9\r\nContent-Type: multipart/form-data\r\n")), 415);
  EXPECT_EQ(StatusOf(Get("Content-Length: 9\r\n")), 400);
  EXPECT_EQ(StatusOf(Get("RANGE: bytes=0-,0-\r\n")), 400);
}

}  // namespace
}  // namespace capstan
