#include "server/page/live_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/real_clock.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kToken[] = "0123456789abcdef";

// Answers status and changes, and keeps the changes.
class FakeCoordinator : public CoordinatorEndpoint {
 public:
  void Call(CoordinatorRequest request, Callback<CoordinatorReply> done) override {
    if (std::holds_alternative<v1::GetStatusRequest>(request)) {
      v1::GetStatusReply reply;
      reply.set_job_name("digits");
      return done(reply);
    }
    ASSERT_TRUE(std::holds_alternative<v1::SetConsistencyRequest>(request));
    change_ = std::get<v1::SetConsistencyRequest>(request);
    if (!error_.ok()) return done(error_);
    v1::SetConsistencyReply reply;
    reply.mutable_period()->set_first_step(12);
    *reply.mutable_period()->mutable_consistency() = change_.change();
    done(reply);
  }

  v1::SetConsistencyRequest change_;
  absl::Status error_;
};

class LivePageTest : public testing::Test {
 protected:
  void Open(std::shared_ptr<const JobTokens> tokens, bool is_tls) {
    LivePage::Options options;
    options.coordinator = &coordinator_;
    options.clock = &clock_;
    options.log = &log_;
    options.tokens = [this] { return tokens_; };
    options.is_tls = is_tls;
    options.host = "node1";
    tokens_ = std::move(tokens);
    scheme_ = is_tls ? "https" : "http";
    page_ = std::make_unique<LivePage>(options);
  }
  void OpenWithTokens() {
    Open(std::make_shared<const JobTokens>(JobTokens::Parse(kToken).value()), true);
  }

  HttpRequest Request(const std::string& method, const std::string& path) {
    HttpRequest request;
    request.method = method;
    request.path = path;
    request.host = "127.0.0.1:4080";
    if (method == "POST") request.origin = scheme_ + "://127.0.0.1:4080";
    request.cookie = cookie_;
    return request;
  }
  HttpAnswer Get(const std::string& path) { return page_->Answer(Request("GET", path)); }
  HttpAnswer Post(const std::string& path, std::map<std::string, std::string> fields) {
    HttpRequest request = Request("POST", path);
    request.fields = std::move(fields);
    return page_->Answer(request);
  }
  // Keeps the cookie, as a browser does.
  HttpAnswer LogIn(const std::string& token) {
    HttpAnswer answer = Post("/login", {{"token", token}});
    const std::string cookie = HeaderOf(answer, "Set-Cookie");
    if (!cookie.empty()) cookie_ = absl::StrCat("other=1; ", cookie.substr(0, cookie.find(';')));
    return answer;
  }
  static std::string HeaderOf(const HttpAnswer& answer, const std::string& name) {
    for (const auto& [header, value] : answer.headers) {
      if (header == name) return value;
    }
    return "";
  }

  RealClock clock_;
  LogRing log_;
  FakeCoordinator coordinator_;
  std::shared_ptr<const JobTokens> tokens_;
  std::string scheme_;
  std::string cookie_;
  std::unique_ptr<LivePage> page_;
};

TEST_F(LivePageTest, HasItsFilesAndNothingFromElsewhere) {
  Open(nullptr, false);
  const HttpAnswer page = Get("/");
  EXPECT_EQ(page.status, 200);
  EXPECT_THAT(page.content_type, HasSubstr("text/html"));
  EXPECT_THAT(page.body, AllOf(Not(HasSubstr("http:")), Not(HasSubstr("https:")),
                               Not(HasSubstr(" style=")), Not(HasSubstr(" onclick="))));
  EXPECT_THAT(Get("/live.js").body, AllOf(HasSubstr("CapstanCharts"), Not(HasSubstr("innerHTML"))));
  EXPECT_THAT(Get("/live.css").content_type, HasSubstr("text/css"));
  EXPECT_THAT(Get("/d3.js").body, HasSubstr("!function(){"));
  EXPECT_EQ(Get("/d3").status, 404);
  EXPECT_EQ(page_->Answer(Request("PUT", "/")).status, 405);
}

TEST_F(LivePageTest, EachAnswerHasTheHeadersThatProtectThePage) {
  Open(nullptr, false);
  for (const char* path : {"/", "/status.json", "/nowhere"}) {
    const HttpAnswer answer = Get(path);
    EXPECT_THAT(HeaderOf(answer, "Content-Security-Policy"),
                AllOf(HasSubstr("default-src 'none'"), HasSubstr("frame-ancestors 'none'"),
                      Not(HasSubstr("unsafe"))));
    EXPECT_EQ(HeaderOf(answer, "X-Content-Type-Options"), "nosniff");
  }
}

TEST_F(LivePageTest, WithoutTokensNobodyLogsIn) {
  Open(nullptr, false);
  const auto status = nlohmann::json::parse(Get("/status.json").body);
  EXPECT_EQ(status["job"], "digits");
  EXPECT_EQ(status["has_login"], false);
  EXPECT_EQ(status["may_operate"], true);
  EXPECT_EQ(Post("/consistency", {{"mode", "async"}}).body, "From step 12 on: async.");
}

TEST_F(LivePageTest, WithTokensThePageIsShownAndTheStatusIsNot) {
  OpenWithTokens();
  EXPECT_EQ(Get("/").status, 200);
  EXPECT_EQ(Get("/status.json").status, 401);
  EXPECT_EQ(Post("/consistency", {{"mode", "async"}}).status, 401);
  EXPECT_FALSE(coordinator_.change_.has_change());
}

TEST_F(LivePageTest, AWrongTokenGetsNoCookie) {
  OpenWithTokens();
  const HttpAnswer answer = LogIn("fedcba9876543210");
  EXPECT_EQ(answer.status, 403);
  EXPECT_THAT(answer.body, HasSubstr("not a token of this job"));
  EXPECT_EQ(HeaderOf(answer, "Set-Cookie"), "");
}

TEST_F(LivePageTest, ATokenToOperateSeesAndChanges) {
  OpenWithTokens();
  const HttpAnswer answer = LogIn(absl::StrCat(" ", kToken, "\n"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(HeaderOf(answer, "Set-Cookie"),
              AllOf(HasSubstr("__Host-capstan4080="), HasSubstr("; HttpOnly"),
                    HasSubstr("; SameSite=Strict"), HasSubstr("; Secure"), HasSubstr("; Path=/"),
                    HasSubstr("; Max-Age=43200"), Not(HasSubstr(kToken))));
  const auto status = nlohmann::json::parse(Get("/status.json").body);
  EXPECT_EQ(status["may_operate"], true);
  EXPECT_EQ(Post("/consistency", {{"mode", "ssp"}, {"staleness", "4"}}).body,
            "From step 12 on: ssp, staleness 4.");
  EXPECT_EQ(coordinator_.change_.change().staleness(), 4);
  EXPECT_THAT(log_.Lines().back(), HasSubstr("consistency changed"));
}

TEST_F(LivePageTest, ATokenToLookMayOnlyLook) {
  OpenWithTokens();
  EXPECT_EQ(LogIn(WeakerToken(kToken, Right::kLook)).status, 200);
  const auto status = nlohmann::json::parse(Get("/status.json").body);
  EXPECT_EQ(status["may_operate"], false);
  const HttpAnswer refused = Post("/consistency", {{"mode", "bsp"}});
  EXPECT_EQ(refused.status, 403);
  EXPECT_THAT(refused.body, HasSubstr("right to operate, got one to look only"));
  EXPECT_FALSE(coordinator_.change_.has_change());
}

TEST_F(LivePageTest, LoggingOutAndANewTokenEndSessions) {
  OpenWithTokens();
  LogIn(kToken);
  EXPECT_THAT(HeaderOf(Post("/logout", {}), "Set-Cookie"), HasSubstr("Max-Age=0"));
  EXPECT_EQ(Get("/status.json").status, 401);
  LogIn(kToken);
  EXPECT_EQ(Get("/status.json").status, 200);
  tokens_ = std::make_shared<const JobTokens>(JobTokens::Parse("fedcba9876543210").value());
  EXPECT_EQ(Get("/status.json").status, 401);
}

TEST_F(LivePageTest, OtherPagesMayNotPost) {
  Open(nullptr, false);
  for (const char* origin :
       {"", "null", "http://evil.example", "https://127.0.0.1:4080", "http://127.0.0.1:4081"}) {
    HttpRequest request = Request("POST", "/consistency");
    request.fields = {{"mode", "async"}};
    request.origin = origin;
    EXPECT_EQ(page_->Answer(request).status, 403) << origin;
  }
  HttpRequest request = Request("POST", "/consistency");
  request.fields = {{"mode", "async"}};
  request.fetch_site = "cross-site";
  EXPECT_EQ(page_->Answer(request).status, 403);
  request.fetch_site = "same-origin";
  EXPECT_EQ(page_->Answer(request).status, 200);
  request.method = "GET";
  EXPECT_EQ(page_->Answer(request).status, 404);
}

TEST_F(LivePageTest, ANameThatLeadsHereIsNotEnough) {
  Open(nullptr, false);
  HttpRequest request = Request("GET", "/status.json");
  for (const char* host : {"evil.example:4080", "", "127.0.0.1.evil.example", "[::1].evil"}) {
    request.host = host;
    EXPECT_EQ(page_->Answer(request).status, 421) << host;
  }
  for (const char* host : {"localhost:4080", "Node1:4080", "127.0.0.1", "[::1]:4080", "10.0.0.1"}) {
    request.host = host;
    EXPECT_EQ(page_->Answer(request).status, 200) << host;
  }
}

TEST_F(LivePageTest, AChangeThatIsWrongOrComesTooEarlySaysWhy) {
  Open(nullptr, false);
  EXPECT_EQ(Post("/consistency", {{"mode", "eventual"}}).status, 400);
  EXPECT_EQ(Post("/consistency", {{"mode", "ssp"}, {"staleness", "-1"}}).status, 400);
  EXPECT_EQ(Post("/consistency", {{"mode", "ssp"}}).status, 400);
  EXPECT_EQ(Post("/consistency", {}).status, 400);
  coordinator_.error_ = absl::FailedPreconditionError("the job is not training");
  const HttpAnswer answer = Post("/consistency", {{"mode", "bsp"}});
  EXPECT_EQ(answer.status, 409);
  EXPECT_EQ(answer.body, "the job is not training");
}

}  // namespace
}  // namespace capstan
