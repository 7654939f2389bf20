#ifndef SERVER_PAGE_HTTP_TEXT_H_
#define SERVER_PAGE_HTTP_TEXT_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "server/page/page_message.h"

namespace capstan {

// Bounds of a request over HTTP.
inline constexpr size_t kMaxHeadBytes = 8 << 10;  // request line and headers
inline constexpr int kMaxHeaders = 48;
inline constexpr size_t kMaxTargetBytes = 128;
inline constexpr size_t kMaxBodyBytes = 4 << 10;

// A request as far as its head says it.
struct RequestHead {
  PageRequest request;    // without the fields of a form
  size_t body_bytes = 0;  // that follow the head
  bool is_last = false;   // the client wants no further request on this connection
};

struct RequestProblem {
  int status;
  std::string text;
};

// Reads the head of a request of HTTP/1, which ends with the empty line after the headers. Refuses
// what no browser sends to the page: bodies without a length, or longer than the bound, or other
// than a form; ranges and encodings.
std::optional<RequestProblem> ParseHead(absl::string_view head, RequestHead* parsed);

// The fields of a form, application/x-www-form-urlencoded. If a name comes twice, the first counts.
std::map<std::string, std::string> ParseForm(absl::string_view body);

// An answer as HTTP. `has_body`: false for an answer to HEAD. `is_last`: the connection ends.
std::string AnswerText(const PageAnswer& answer, bool has_body, bool is_last);

}  // namespace capstan

#endif  // SERVER_PAGE_HTTP_TEXT_H_
