#include "tests/page/browser.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace capstan {
namespace {

using ::nlohmann::json;

constexpr absl::Duration kLongestCall = absl::Seconds(20);

struct Key {
  const char* name;
  int code;
  const char* text;
};
constexpr Key kKeys[] = {{"Tab", 9, ""}, {"Enter", 13, "\r"}, {"ArrowDown", 40, ""}};

}  // namespace

Browser::Browser(const std::string& folder) {
  const std::string to = folder + "/to", from = folder + "/from";
  EXPECT_EQ(mkfifo(to.c_str(), 0600), 0);
  EXPECT_EQ(mkfifo(from.c_str(), 0600), 0);
  // Open for both ways: then opening waits for nobody.
  to_ = open(to.c_str(), O_RDWR | O_CLOEXEC);
  from_ = open(from.c_str(), O_RDWR | O_CLOEXEC);
  ChildProcess::Options options;
  options.program = "/bin/bash";
  options.args = {"-c", absl::StrCat("exec /usr/bin/chromium --headless --no-sandbox --disable-gpu "
                                     "--disable-dev-shm-usage --no-first-run --disable-extensions "
                                     "--disable-background-networking --ignore-certificate-errors "
                                     "--remote-debugging-pipe --user-data-dir='",
                                     folder, "/profile' about:blank 3<'", to, "' 4>'", from, "'")};
  options.log_path = folder + "/chromium.log";
  auto process = ChildProcess::Start(options);
  EXPECT_TRUE(process.ok()) << process.status() << "; deploy/setup.sh installs chromium";
  if (process.ok()) process_ = *std::move(process);
}

Browser::~Browser() {
  process_ = nullptr;
  close(to_);
  close(from_);
}

void Browser::Open(const std::string& url) {
  if (!target_.empty()) Call("Target.closeTarget", {{"targetId", target_}}, false);
  const json context = Call("Target.createBrowserContext", json::object(), false);
  const json target = Call(
      "Target.createTarget",
      {{"url", "about:blank"}, {"browserContextId", context.value("browserContextId", "")}}, false);
  target_ = target.value("targetId", "");
  session_ = Call("Target.attachToTarget", {{"targetId", target_}, {"flatten", true}}, false)
                 .value("sessionId", "");
  SetView(1600, 1000, false);
  Call("Page.navigate", {{"url", url}});
  EXPECT_TRUE(
      WaitUntil("location.protocol.indexOf('http') === 0 && document.readyState === 'complete'"));
}

void Browser::SetView(int width, int height, bool is_dark) {
  Call("Emulation.setDeviceMetricsOverride",
       {{"width", width}, {"height", height}, {"deviceScaleFactor", 1}, {"mobile", false}});
  Call(
      "Emulation.setEmulatedMedia",
      {{"features",
        json::array({{{"name", "prefers-color-scheme"}, {"value", is_dark ? "dark" : "light"}}})}});
}

json Browser::Evaluate(const std::string& expression) {
  const json result =
      Call("Runtime.evaluate",
           {{"expression", expression}, {"returnByValue", true}, {"awaitPromise", true}});
  EXPECT_FALSE(result.contains("exceptionDetails")) << expression << ": " << result.dump();
  return result.contains("result") ? result["result"].value("value", json()) : json();
}

std::string Browser::TextOf(const std::string& selector) {
  const json text = Evaluate(absl::StrCat("(document.querySelector(", json(selector).dump(),
                                          ") || {textContent: ''}).textContent"));
  return text.is_string() ? text.get<std::string>() : "";
}

bool Browser::WaitUntil(const std::string& expression, absl::Duration timeout) {
  const absl::Time end = absl::Now() + timeout;
  while (absl::Now() < end) {
    if (Evaluate(absl::StrCat("Boolean(", expression, ")")) == true) return true;
    absl::SleepFor(absl::Milliseconds(50));
  }
  return false;
}

void Browser::Press(const std::string& name) {
  for (const Key& key : kKeys) {
    if (name != key.name) continue;
    json event = {{"type", "keyDown"},
                  {"key", name},
                  {"code", name},
                  {"windowsVirtualKeyCode", key.code},
                  {"text", key.text}};
    Call("Input.dispatchKeyEvent", event);
    event["type"] = "keyUp";
    Call("Input.dispatchKeyEvent", event);
    return;
  }
  ADD_FAILURE() << "no such key: " << name;
}

void Browser::Type(const std::string& text) { Call("Input.insertText", {{"text", text}}); }

std::string Browser::Screenshot() {
  std::string png;
  EXPECT_TRUE(absl::Base64Unescape(
      Call("Page.captureScreenshot", {{"format", "png"}}).value("data", ""), &png));
  return png;
}

json Browser::Call(const std::string& method, json params, bool is_of_page) {
  json message = {{"id", ++last_id_}, {"method", method}, {"params", std::move(params)}};
  if (is_of_page) message["sessionId"] = session_;
  Send(message);
  while (true) {
    const json answer = Receive();
    if (answer.is_null()) {
      ADD_FAILURE() << "Chromium does not answer " << method;
      return json::object();
    }
    if (answer.value("id", 0) != last_id_) continue;  // an event
    EXPECT_FALSE(answer.contains("error")) << method << ": " << answer.dump();
    return answer.value("result", json::object());
  }
}

void Browser::Send(const json& message) {
  const std::string text = message.dump() + '\0';
  EXPECT_EQ(write(to_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

json Browser::Receive() {
  const absl::Time deadline = absl::Now() + kLongestCall;
  while (true) {
    const size_t end = received_.find('\0');
    if (end != received_.npos) {
      json message = json::parse(received_.substr(0, end), nullptr, /*allow_exceptions=*/false);
      received_.erase(0, end + 1);
      return message;
    }
    pollfd waiting = {from_, POLLIN, 0};
    const auto left = static_cast<int>(absl::ToInt64Milliseconds(deadline - absl::Now()));
    if (left <= 0 || poll(&waiting, 1, left) <= 0) return nullptr;
    char bytes[64 << 10];
    const ssize_t size = read(from_, bytes, sizeof(bytes));
    if (size <= 0) return nullptr;
    received_.append(bytes, size);
  }
}

}  // namespace capstan
