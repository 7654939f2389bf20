#ifndef TESTS_PAGE_BROWSER_H_
#define TESTS_PAGE_BROWSER_H_

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/time/time.h"
#include "deploy/launch/child_process.h"

namespace capstan {

// Headless Chromium, driven through its DevTools protocol over a pair of pipes. Certificates are
// not checked. One page at a time. If Chromium does not do what it is asked, the calling test
// fails.
class Browser {
 public:
  // `folder`, which exists, gets the profile and the log.
  explicit Browser(const std::string& folder);
  ~Browser();
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  // Opens the page in a window of its own: it shares no cookies with earlier ones.
  void Open(const std::string& url);
  // Of the window, in pixels, and what the user prefers.
  void SetView(int width, int height, bool is_dark);

  // The value of a JavaScript expression.
  nlohmann::json Evaluate(const std::string& expression);
  // The text of the element that a CSS selector finds first; empty if there is none.
  std::string TextOf(const std::string& selector);
  // Waits until the expression is true.
  bool WaitUntil(const std::string& expression, absl::Duration timeout = absl::Seconds(15));

  // Keys of the keyboard: "Tab", "Enter", "ArrowDown".
  void Press(const std::string& key);
  void Type(const std::string& text);

  // A PNG.
  std::string Screenshot();

 private:
  // The result of a command to the browser, or to the page.
  nlohmann::json Call(const std::string& method, nlohmann::json params, bool is_of_page = true);
  void Send(const nlohmann::json& message);
  // The next message; null: none came in time.
  nlohmann::json Receive();

  int to_ = -1;
  int from_ = -1;
  int last_id_ = 0;
  std::string received_;
  std::string session_;  // of the page
  std::string target_;
  std::unique_ptr<ChildProcess> process_;
};

}  // namespace capstan

#endif  // TESTS_PAGE_BROWSER_H_
