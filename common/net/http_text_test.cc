#include "common/net/http_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kForm[] = "Content-Type: application/x-www-form-urlencoded;charset=UTF-8\r\n";

std::string Get(absl::string_view headers) {
  return absl::StrCat("GET / HTTP/1.1\r\nHost: localhost\r\n", headers, "\r\n");
}

std::string Post(absl::string_view headers, absl::string_view body = "") {
  return absl::StrCat("POST /login HTTP/1.1\r\nHost: localhost\r\n", headers, "\r\n", body);
}

std::string PostForm(absl::string_view body) {
  return Post(absl::StrCat(kForm, "Content-Length: ", body.size(), "\r\n"), body);
}

// A request that has come whole.
ReceivedRequest Read(absl::string_view received) {
  const auto request = ReadRequest(received);
  EXPECT_TRUE(request.has_value()) << received;
  return request.value_or(ReceivedRequest());
}

// The status of the refusal; 200: there is none; 0: more is needed.
int StatusOf(absl::string_view received) {
  const auto request = ReadRequest(received);
  if (!request.has_value()) return 0;
  return request->refusal.has_value() ? request->refusal->status : 200;
}

TEST(HttpTextTest, WhatBrowsersAndProbesSendPasses) {
  EXPECT_EQ(StatusOf(Get("")), 200);
  EXPECT_EQ(StatusOf(Get("Accept-Encoding: gzip, deflate, br\r\nConnection: keep-alive\r\n")), 200);
  EXPECT_EQ(
      StatusOf("GET /readyz HTTP/1.1\r\nHost: 10.0.0.1:4002\r\nUser-Agent: kube-probe/1.31\r\n"
               "Accept: */*\r\nConnection: close\r\n\r\n"),
      200);
  EXPECT_EQ(StatusOf("HEAD / HTTP/1.0\r\n\r\n"), 200);
  EXPECT_EQ(StatusOf(PostForm("token=0123456789abcdef")), 200);
  EXPECT_EQ(StatusOf(Post("Content-Length: 0\r\n")), 200);
}

TEST(HttpTextTest, TheHeadSaysWhatIsAskedFor) {
  const ReceivedRequest read = Read(absl::StrCat(
      "POST /login?a=b HTTP/1.1\r\nHOST: h:1 \r\norigin:http://h:1\r\nSec-Fetch-Site: none\r\n"
      "Cookie: a=b\r\nConnection: Close\r\nContent-Length: 3\r\n",
      kForm, "\r\nc=d"));
  ASSERT_FALSE(read.refusal.has_value());
  EXPECT_EQ(read.request.method, "POST");
  EXPECT_EQ(read.request.path, "/login");
  EXPECT_EQ(read.request.host, "h:1");
  EXPECT_EQ(read.request.origin, "http://h:1");
  EXPECT_EQ(read.request.fetch_site, "none");
  EXPECT_EQ(read.request.cookie, "a=b");
  EXPECT_EQ(read.request.fields.at("c"), "d");
  EXPECT_TRUE(read.is_last);
  const ReceivedRequest other = Read(Get(""));
  EXPECT_EQ(other.request.path, "/");
  EXPECT_FALSE(other.is_last);
}

TEST(HttpTextTest, FormsAreDecoded) {
  const auto fields =
      Read(PostForm("token=a%20b%2B+c&token=2&&mode&x=%4&y=%zz=1&%00=")).request.fields;
  EXPECT_EQ(fields.at("token"), "a b+ c");
  EXPECT_EQ(fields.at("mode"), "");
  EXPECT_EQ(fields.at("x"), "%4");
  EXPECT_EQ(fields.at("y"), "%zz=1");
  EXPECT_EQ(fields.size(), 5);
  EXPECT_TRUE(Read(PostForm("")).request.fields.empty());
}

TEST(HttpTextTest, AnAnswerHasItsHeadersAndItsLength) {
  const HttpAnswer answer = {200, "text/css", "body", {{"A", "b"}}};
  EXPECT_EQ(AnswerText(answer, true, false),
            "HTTP/1.1 200 OK\r\nContent-Type: text/css\r\nContent-Length: 4\r\n"
            "Cache-Control: no-store\r\nA: b\r\n\r\nbody");
  EXPECT_EQ(AnswerText({404, "text/css", "no"}, false, true),
            "HTTP/1.1 404 Not Found\r\nContent-Type: text/css\r\nContent-Length: 2\r\n"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\n");
}

TEST(HttpTextTest, AnUnfinishedRequestIsWaitedFor) {
  for (const std::string& request : {Get("A: b\r\n"), PostForm("a=b")}) {
    for (size_t size = 0; size < request.size(); ++size) {
      EXPECT_EQ(StatusOf(request.substr(0, size)), 0) << request.substr(0, size);
    }
    EXPECT_EQ(Read(request).size, request.size());
  }
}

TEST(HttpTextTest, TheNextRequestIsNoPartOfTheFirst) {
  const std::string first = PostForm("a=b");
  const ReceivedRequest read = Read(first + Get("Connection: close\r\n"));
  EXPECT_EQ(read.size, first.size());
  EXPECT_EQ(read.request.fields.at("a"), "b");
  EXPECT_FALSE(read.is_last);
}

TEST(HttpTextTest, ARequestTypedByHandIsTheLastOne) {
  const ReceivedRequest read = Read("GET /healthz HTTP/1.1\nHost: h\n\nGET /secret HTTP/1.1\n\n");
  EXPECT_FALSE(read.refusal.has_value());
  EXPECT_EQ(read.request.path, "/healthz");
  EXPECT_EQ(read.request.host, "h");
  EXPECT_TRUE(read.is_last);
}

TEST(HttpTextTest, LinesThatEndDifferentlyAreRefused) {
  for (const std::string request :
       {"GET / HTTP/1.1\r\nA: b\n\r\n", "GET / HTTP/1.1\nA: b\r\n\r\n",
        "GET / HTTP/1.1\r\nA: b\n\n", "GET / HTTP/1.1\r\nA: b\nRange: c\r\n\r\n"}) {
    EXPECT_EQ(StatusOf(request), 400) << request;
  }
}

TEST(HttpTextTest, LinesThatAreNoHttpAreRefused) {
  for (const std::string line : {"GET /", "PRI * HTTP/2.0", "", "GET  / HTTP/1.1",
                                 "GET / HTTP/1.1 ", " / HTTP/1.1", "GET /\r HTTP/1.1"}) {
    EXPECT_EQ(StatusOf(line + "\r\n\r\n"), 400) << line;
  }
  EXPECT_EQ(StatusOf(Get("no colon\r\n")), 400);
  EXPECT_EQ(StatusOf(Get("Host: another\r\n")), 400);
}

TEST(HttpTextTest, WhatIsNoTextIsRefusedAlthoughItHasNoEnd) {
  EXPECT_EQ(StatusOf(absl::string_view("\x16\x03\x01\x02\x00\x01", 6)), 400);
  EXPECT_EQ(StatusOf(absl::string_view("GET /\0", 6)), 400);
}

TEST(HttpTextTest, NamesThatOthersReadDifferentlyAreRefused) {
  EXPECT_EQ(StatusOf(Post("Content-Length : 0\r\n")), 400);
  EXPECT_EQ(StatusOf(Get(" Transfer-Encoding: chunked\r\n")), 400);
  EXPECT_EQ(StatusOf(Get(": a\r\n")), 400);
}

TEST(HttpTextTest, CloseMayBeOneOfSeveralWords) {
  EXPECT_TRUE(Read(Get("Connection: keep-alive, Close\r\n")).is_last);
}

TEST(HttpTextTest, WhatIsTooLargeIsRefusedAndNothingFollows) {
  const std::string target(kMaxTargetBytes + 1, 'a');
  EXPECT_EQ(StatusOf(absl::StrCat("GET ", target, " HTTP/1.1\r\n\r\n")), 414);
  std::string headers;
  for (int i = 0; i < kMaxHeaders; ++i) absl::StrAppend(&headers, "A: b\r\n");
  EXPECT_EQ(StatusOf(Get(headers)), 431);
  EXPECT_TRUE(Read(Get(headers)).is_last);
  EXPECT_EQ(StatusOf(PostForm(std::string(kMaxBodyBytes, 'a'))), 200);
  EXPECT_EQ(StatusOf(Post(absl::StrCat(kForm, "Content-Length: ", kMaxBodyBytes + 1, "\r\n"))),
            413);
  EXPECT_EQ(StatusOf(Post(absl::StrCat(kForm, "Content-Length: 99999999999999999999\r\n"))), 413);
}

TEST(HttpTextTest, AHeadHasEightKibibytesAtMost) {
  const auto request = [](size_t size) {
    const std::string text = Get("A: ");  // ends with two lines
    return Get("A: " + std::string(size - text.size() - 2, 'a') + "\r\n");
  };
  EXPECT_EQ(StatusOf(request(kMaxHeadBytes)), 200);
  EXPECT_EQ(StatusOf(request(kMaxHeadBytes + 1)), 400);
  EXPECT_EQ(StatusOf(std::string(kMaxHeadBytes - 1, 'a')), 0);
  EXPECT_EQ(StatusOf(std::string(kMaxHeadBytes, 'a')), 400);
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

TEST(HttpTextTest, RefusalsRepeatNothingOfTheRequest) {
  for (const std::string& request :
       {Get("secret\r\n"), Post("Content-Length: secret\r\n"), Get("Range: secret\r\n"),
        std::string("secret /secret HTTP/secret\r\n\r\n")}) {
    const ReceivedRequest read = Read(request);
    ASSERT_TRUE(read.refusal.has_value()) << request;
    EXPECT_THAT(read.refusal->body, Not(HasSubstr("secret"))) << request;
  }
}

}  // namespace
}  // namespace capstan
