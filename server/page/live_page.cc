#include "server/page/live_page.h"

#include <arpa/inet.h>
#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/mutex.h"
#include "common/base/printable_text.h"
#include "common/charts/chart_files.h"
#include "common/job/job_properties.h"
#include "common/trust/call_rights.h"
#include "server/page/asset_files.h"
#include "server/page/status_json.h"

namespace capstan {
namespace {

// Strangers must not fill the page's log.
constexpr absl::Duration kLogInterval = absl::Minutes(1);

constexpr char kHtml[] = "text/html; charset=utf-8";
constexpr char kCss[] = "text/css; charset=utf-8";
constexpr char kScript[] = "text/javascript; charset=utf-8";
constexpr char kJson[] = "application/json";

HttpAnswer Text(int status, absl::string_view text) {
  return {status, "text/plain; charset=utf-8", PrintableText(text)};
}

HttpAnswer NoSuchPage() { return Text(404, "there is no such page; the page is at /"); }

// The page and its files; nothing: there is none at this path.
std::optional<HttpAnswer> Asset(absl::string_view path) {
  if (path == "/") return HttpAnswer{200, kHtml, kLivePage};
  if (path == "/live.css") return HttpAnswer{200, kCss, absl::StrCat(kChartsStyle, kLiveStyle)};
  if (path == "/live.js") return HttpAnswer{200, kScript, absl::StrCat(kChartsScript, kLiveScript)};
  if (path == "/d3.js") return HttpAnswer{200, kScript, kD3Script};
  return std::nullopt;
}

void AddSecurityHeaders(HttpAnswer& answer) {
  answer.headers.insert(
      answer.headers.end(),
      {{"Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
       {"X-Content-Type-Options", "nosniff"},
       {"X-Frame-Options", "DENY"},
       {"Referrer-Policy", "same-origin"},
       {"Cross-Origin-Opener-Policy", "same-origin"},
       {"Cross-Origin-Resource-Policy", "same-origin"}});
}

int HttpStatus(const absl::Status& status) {
  if (absl::IsInvalidArgument(status)) return 400;
  if (absl::IsFailedPrecondition(status)) return 409;
  return 503;
}

// Splits "host:port". A port that is not there is empty.
std::pair<std::string, std::string> SplitHost(absl::string_view text) {
  const size_t colon = text.rfind(':');
  const bool has_port = colon != text.npos && text.find(']', colon) == text.npos;
  std::string host = absl::AsciiStrToLower(has_port ? text.substr(0, colon) : text);
  return {std::move(host), std::string(has_port ? text.substr(colon + 1) : "")};
}

bool IsIpAddress(const std::string& host) {
  in_addr ipv4;
  in6_addr ipv6;
  if (inet_pton(AF_INET, host.c_str(), &ipv4) == 1) return true;
  const std::string bare(absl::StripSuffix(absl::StripPrefix(host, "["), "]"));
  return bare.size() + 2 == host.size() && inet_pton(AF_INET6, bare.c_str(), &ipv6) == 1;
}

std::string Field(const HttpRequest& request, const std::string& name) {
  const auto field = request.fields.find(name);
  return field == request.fields.end() ? "" : field->second;
}

absl::StatusOr<v1::SetConsistencyRequest> ReadChange(const HttpRequest& request) {
  v1::SetConsistencyRequest change;
  v1::ConsistencySpec& spec = *change.mutable_change();
  const std::string mode = Field(request, "mode");
  v1::ConsistencySpec::Mode parsed;
  if (!v1::ConsistencySpec::Mode_Parse(absl::AsciiStrToUpper(mode), &parsed) ||
      parsed == v1::ConsistencySpec::MODE_UNSPECIFIED) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected the mode bsp, ssp or async, got \"", mode, "\""));
  }
  spec.set_mode(parsed);
  if (parsed != v1::ConsistencySpec::SSP) return change;
  const std::string staleness = Field(request, "staleness");
  int64_t steps = 0;
  if (!absl::SimpleAtoi(staleness, &steps) || steps < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a staleness of 0 or more steps, got \"", staleness, "\""));
  }
  spec.set_staleness(steps);
  return change;
}

// A reply that a thread waits for, but not for ever. Thread-safe.
struct PendingReply {
  Mutex mu;
  CondVar is_set;
  std::optional<absl::StatusOr<v1::SetConsistencyReply>> reply ABSL_GUARDED_BY(mu);
};

// Nothing: there is no reply yet at `deadline`.
std::optional<absl::StatusOr<v1::SetConsistencyReply>> AskForChange(
    CoordinatorEndpoint& coordinator, v1::SetConsistencyRequest change, Clock& clock,
    absl::Time deadline) {
  // Outlives this function if the reply comes later.
  auto pending = std::make_shared<PendingReply>();
  CallCoordinator(coordinator, std::move(change),
                  [pending](absl::StatusOr<v1::SetConsistencyReply> reply) {
                    MutexLock lock(&pending->mu);
                    pending->reply = std::move(reply);
                    pending->is_set.NotifyAll();
                  });
  MutexLock lock(&pending->mu);
  while (!pending->reply.has_value() && clock.Now() < deadline) {
    clock.WaitUntil(pending->mu, pending->is_set, deadline);
  }
  return std::move(pending->reply);
}

std::string ChangeText(const v1::SetConsistencyReply& reply) {
  const int64_t first_step = reply.period().first_step();
  std::string text = absl::StrCat("From step ", first_step);
  if (reply.steps_total() > 0) absl::StrAppend(&text, " of ", reply.steps_total());
  absl::StrAppend(&text, " on: ", ConsistencyText(reply.period().consistency()), ".");
  if (reply.steps_total() > 0 && first_step >= reply.steps_total()) {
    text += " That comes too late for this job: its workers are at their last steps.";
  }
  return text;
}

}  // namespace

HttpAnswer LivePage::Answer(const HttpRequest& request) {
  HttpAnswer answer = Route(request);
  AddSecurityHeaders(answer);
  return answer;
}

HttpAnswer LivePage::Route(const HttpRequest& request) {
  if (!IsOwnHost(request.host)) {
    return Text(421,
                "expected an address of this page in the header Host; open the page by an IP "
                "address, or as localhost, or by the host in --http_listen");
  }
  const bool is_post = request.method == "POST";
  if (!is_post && request.method != "GET" && request.method != "HEAD") {
    return Text(405, "expected GET or POST");
  }
  if (is_post && !IsSameOrigin(request)) {
    return Text(403, "expected a request of this page, got another's");
  }
  const CallRight* const call = FindCall(absl::StrCat(is_post ? "POST " : "GET ", request.path));
  if (call == nullptr) return NoSuchPage();
  if (call->right.has_value()) {
    std::optional<HttpAnswer> refused = Refuse(request, *call->right);
    if (refused.has_value()) return *std::move(refused);
  }
  if (request.path == "/status.json") return Status(request);
  if (request.path == "/login") return LogIn(request);
  if (request.path == "/logout") return LogOut(request);
  if (request.path == "/consistency") return SetConsistency(request);
  return Asset(request.path).value_or(NoSuchPage());
}

bool LivePage::IsOwnHost(absl::string_view host_header) const {
  const std::string host = SplitHost(host_header).first;
  if (host.empty()) return false;
  // Browsers have compared the name with the certificate.
  return options_.is_tls || host == "localhost" || host == absl::AsciiStrToLower(options_.host) ||
         IsIpAddress(host);
}

bool LivePage::IsSameOrigin(const HttpRequest& request) const {
  if (!request.fetch_site.empty() && request.fetch_site != "same-origin") return false;
  const absl::string_view scheme = options_.is_tls ? "https://" : "http://";
  return absl::EqualsIgnoreCase(request.origin, absl::StrCat(scheme, request.host));
}

std::string LivePage::CookieName(const HttpRequest& request) const {
  const std::string port = SplitHost(request.host).second;
  const bool is_number = std::all_of(port.begin(), port.end(), absl::ascii_isdigit);
  return absl::StrCat(options_.is_tls ? "__Host-" : "", "capstan", is_number ? port : "");
}

std::string LivePage::SessionId(const HttpRequest& request) const {
  const std::string name = CookieName(request);
  for (absl::string_view cookie : absl::StrSplit(request.cookie, ';')) {
    cookie = absl::StripAsciiWhitespace(cookie);
    if (absl::ConsumePrefix(&cookie, name) && absl::ConsumePrefix(&cookie, "=")) {
      return std::string(cookie);
    }
  }
  return "";
}

std::string LivePage::SetCookie(const HttpRequest& request, absl::string_view id,
                                absl::Duration lifetime) const {
  return absl::StrCat(CookieName(request), "=", id, "; Path=/; HttpOnly; SameSite=Strict; Max-Age=",
                      absl::ToInt64Seconds(lifetime), options_.is_tls ? "; Secure" : "");
}

std::optional<Right> LivePage::RightOf(const HttpRequest& request) {
  const std::shared_ptr<const JobTokens> tokens = options_.tokens();
  if (tokens == nullptr) return Right::kOperate;
  return sessions_.RightOf(*tokens, SessionId(request));
}

std::optional<HttpAnswer> LivePage::Refuse(const HttpRequest& request, Right needed) {
  const std::optional<Right> right = RightOf(request);
  if (!right.has_value()) return Text(401, "log in with a token of this job");
  if (*right >= needed) return std::nullopt;
  return Text(403, absl::StrCat("Refused: expected a token with the right to ", RightName(needed),
                                ", got one to ", RightName(*right), " only."));
}

HttpAnswer LivePage::Status(const HttpRequest& request) {
  const absl::StatusOr<v1::GetStatusReply> status =
      AwaitReply(*options_.coordinator, v1::GetStatusRequest(), *options_.clock);
  if (!status.ok()) return Text(HttpStatus(status.status()), status.status().message());
  return {200, kJson,
          StatusJson(*status, options_.log->Lines(), /*has_login=*/options_.tokens() != nullptr,
                     /*may_operate=*/RightOf(request) >= RightOfCall("POST /consistency"))};
}

HttpAnswer LivePage::LogIn(const HttpRequest& request) {
  const std::shared_ptr<const JobTokens> tokens = options_.tokens();
  if (tokens == nullptr) return Text(200, "This job has no tokens: nobody has to log in.");
  const std::string id =
      sessions_.Begin(*tokens, absl::StripAsciiWhitespace(Field(request, "token")));
  if (id.empty()) {
    LogWrongToken();
    return Text(403,
                "That is not a token of this job. The file token in the folder of keys has it.");
  }
  sessions_.End(SessionId(request));
  HttpAnswer answer = Text(200, "Logged in.");
  answer.headers.push_back({"Set-Cookie", SetCookie(request, id, PageSessions::kLifetime)});
  return answer;
}

void LivePage::LogWrongToken() {
  const absl::Time now = options_.clock->Now();
  int64_t count = 0;
  {
    MutexLock lock(&mu_);
    ++wrong_tokens_;
    if (now < last_log_ + kLogInterval) return;
    last_log_ = now;
    count = wrong_tokens_;
  }
  LOG(WARNING) << "live page: refused a wrong token; " << count << " so far";
}

HttpAnswer LivePage::LogOut(const HttpRequest& request) {
  sessions_.End(SessionId(request));
  HttpAnswer answer = Text(200, "Logged out.");
  answer.headers.push_back({"Set-Cookie", SetCookie(request, "", absl::ZeroDuration())});
  return answer;
}

HttpAnswer LivePage::SetConsistency(const HttpRequest& request) {
  absl::StatusOr<v1::SetConsistencyRequest> change = ReadChange(request);
  if (!change.ok()) return Text(400, change.status().message());
  {
    // Others would only take threads from the page.
    MutexLock lock(&mu_);
    if (std::exchange(is_changing_, true)) return Text(409, "Another change is under way.");
  }
  HttpAnswer answer = Change(*std::move(change));
  MutexLock lock(&mu_);
  is_changing_ = false;
  return answer;
}

HttpAnswer LivePage::Change(v1::SetConsistencyRequest change) {
  Clock& clock = *options_.clock;
  const auto reply =
      AskForChange(*options_.coordinator, std::move(change), clock, clock.Now() + kLongestWait);
  if (!reply.has_value()) {
    return Text(202, "The servers have not agreed on a step yet; the page shows when they have.");
  }
  if (!reply->ok()) return Text(HttpStatus(reply->status()), reply->status().message());
  LOG(INFO) << "live page: consistency changed: " << PrintableText(ChangeText(**reply));
  return Text(200, ChangeText(**reply));
}

}  // namespace capstan
