#ifndef COMMON_NET_HTTP_TEXT_H_
#define COMMON_NET_HTTP_TEXT_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace capstan {

// Bounds of a request over HTTP.
inline constexpr size_t kMaxHeadBytes = 8 << 10;  // request line and headers
inline constexpr int kMaxHeaders = 48;
inline constexpr size_t kMaxTargetBytes = 128;
inline constexpr size_t kMaxBodyBytes = 4 << 10;

// A request, as far as somebody here looks at it. Missing headers are empty.
struct HttpRequest {
  std::string method;
  std::string path;  // without a query
  std::string host;
  std::string origin;
  std::string fetch_site;  // Sec-Fetch-Site
  std::string cookie;
  std::map<std::string, std::string> fields;  // of a POST's form
};

struct HttpAnswer {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};  // beside those of AnswerText
};

// A request with what the connection needs to know of it.
struct ReceivedRequest {
  HttpRequest request;
  std::optional<HttpAnswer> refusal;  // the answer to a request that nobody should look at
  size_t size = 0;                    // bytes, with its form
  bool is_last = false;               // no further request follows on this connection
};

// Reads the first request of HTTP/1 in `received`. Nothing: more of it is needed. Refuses what
// neither browsers nor probes send: bodies without a length, or longer than the bound, or other
// than a form; ranges and encodings. Refusals repeat nothing of the request but a header's name
// that is known.
std::optional<ReceivedRequest> ReadRequest(absl::string_view received);

// An answer as HTTP, which nobody may keep. `has_body`: false for an answer to HEAD. `is_last`: the
// connection ends.
std::string AnswerText(const HttpAnswer& answer, bool has_body, bool is_last);

}  // namespace capstan

#endif  // COMMON_NET_HTTP_TEXT_H_
