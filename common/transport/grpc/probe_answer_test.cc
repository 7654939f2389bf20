#include "common/transport/grpc/probe_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/transport/grpc/http_answer.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

absl::Status Ready() { return absl::OkStatus(); }
absl::Status Unready() { return absl::UnavailableError("waits for \x1b[31m\nworkers"); }

// The answer to a whole request, or "nothing".
std::string AnswerTo(const std::string& request, absl::Status (*readiness)() = Ready) {
  return AnswerProbe(request, readiness).value_or("nothing");
}

TEST(ProbeAnswerTest, BothVersionsOfHttpGetAnOk) {
  for (const std::string version : {"HTTP/1.0", "HTTP/1.1"}) {
    for (const std::string path : {"/healthz", "/readyz"}) {
      const std::string answer =
          AnswerTo("GET " + path + " " + version + "\r\nHost: me\r\nAccept: */*\r\n\r\n");
      EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
      EXPECT_THAT(answer, HasSubstr("\r\nContent-Length: 3\r\n"));
      EXPECT_THAT(answer, HasSubstr("\r\nConnection: close\r\n"));
      EXPECT_THAT(answer, EndsWith("\r\n\r\nok\n"));
    }
  }
}

TEST(ProbeAnswerTest, LinesMayEndWithoutCarriageReturns) {
  EXPECT_THAT(AnswerTo("GET /healthz HTTP/1.0\n\n"), StartsWith("HTTP/1.1 200 "));
}

TEST(ProbeAnswerTest, AProcessThatIsNotReadyIsHealthyAndSaysWhyInOneLine) {
  const std::string answer = AnswerTo("GET /readyz HTTP/1.1\r\n\r\n", Unready);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 503 Service Unavailable\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\nwaits for \\x1b[31m\\x0aworkers\n"));
  EXPECT_THAT(AnswerTo("GET /healthz HTTP/1.1\r\n\r\n", Unready), StartsWith("HTTP/1.1 200 "));
}

TEST(ProbeAnswerTest, ALongReasonIsCut) {
  const auto answer = AnswerProbe("GET /readyz HTTP/1.1\r\n\r\n",
                                  [] { return absl::UnavailableError(std::string(100'000, 'x')); });
  EXPECT_LT(answer->size(), 1000);
}

TEST(ProbeAnswerTest, HeadHasTheHeadersOfGetAndNoBody) {
  for (absl::Status (*const readiness)() : {Ready, Unready}) {
    const std::string get = AnswerTo("GET /readyz HTTP/1.1\r\n\r\n", readiness);
    const std::string head = AnswerTo("HEAD /readyz HTTP/1.1\r\n\r\n", readiness);
    EXPECT_EQ(head, get.substr(0, get.find("\r\n\r\n") + 4));
  }
}

TEST(ProbeAnswerTest, OtherPathsAndMethodsAreRefusedAndNotRepeated) {
  for (const std::string target : {"/", "/secret", "/healthz/secret", "/readyz?secret", "secret",
                                   "/healthz%00", "/../secret", "*"}) {
    EXPECT_THAT(AnswerTo("GET " + target + " HTTP/1.1\r\n\r\n"),
                AllOf(StartsWith("HTTP/1.1 404 "), Not(HasSubstr("secret"))))
        << target;
  }
  for (const std::string method : {"POST", "get", "DELETE", "SECRET"}) {
    EXPECT_THAT(AnswerTo(method + " /healthz HTTP/1.1\r\n\r\n"),
                AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("\r\nAllow: GET, HEAD\r\n"),
                      Not(HasSubstr("SECRET"))))
        << method;
  }
}

TEST(ProbeAnswerTest, WhatIsNoRequestIsABadOne) {
  const std::string requests[] = {
      "GET /healthz\r\n\r\n",
      "GET /healthz HTTP/2.0\r\n\r\n",
      "GET  /healthz HTTP/1.1\r\n\r\n",
      "GET /healthz HTTP/1.1 \r\n\r\n",
      " /healthz HTTP/1.1\r\n\r\n",
      "\r\n\r\n",
      std::string("GET /healthz\0 HTTP/1.1\r\n\r\n", 26),
      "GET /healthz\r HTTP/1.1\r\n\r\n",
      std::string("\x16\x03\x01\x02\x00\x01", 6),  // TLS; no line ends
  };
  for (const std::string& request : requests) {
    EXPECT_THAT(AnswerTo(request), StartsWith("HTTP/1.1 400 ")) << request;
  }
}

TEST(ProbeAnswerTest, AnUnfinishedRequestIsNotAnswered) {
  const std::string request = "GET /healthz HTTP/1.1\r\nHost: me\r\n\r\n";
  for (size_t size = 0; size < request.size(); ++size) {
    EXPECT_EQ(AnswerTo(request.substr(0, size)), "nothing") << size;
  }
  EXPECT_NE(AnswerTo(request), "nothing");
}

TEST(ProbeAnswerTest, ARequestHasFourKibibytesAtMost) {
  const auto request = [](size_t size) {
    std::string text = "GET /healthz HTTP/1.1\r\nX: ";
    text.append(size - text.size() - 4, 'x');
    return text + "\r\n\r\n";
  };
  EXPECT_THAT(AnswerTo(request(kMaxHttpRequestBytes)), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(AnswerTo(request(kMaxHttpRequestBytes + 1)), StartsWith("HTTP/1.1 400 "));
}

TEST(ProbeAnswerTest, BytesAfterTheRequestAreIgnored) {
  const std::string request = "GET /healthz HTTP/1.1\r\n\r\n";
  EXPECT_EQ(AnswerTo(request + "GET /secret HTTP/1.1\r\n\r\n\x16"), AnswerTo(request));
}

}  // namespace
}  // namespace capstan
