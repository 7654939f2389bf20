#ifndef COMMON_TRANSPORT_GRPC_HTTP_ANSWER_H_
#define COMMON_TRANSPORT_GRPC_HTTP_ANSWER_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace capstan {

// Most bytes of a request, up to the empty line after its headers.
inline constexpr size_t kMaxHttpRequestBytes = 4 << 10;

struct HttpAnswer {
  absl::string_view status = "200 OK";
  absl::string_view content_type = "text/plain; charset=utf-8";
  std::string body;
};

// One thing that can be asked for.
struct HttpPath {
  absl::string_view path;  // as "/healthz"
  std::function<HttpAnswer()> answer;
};

// Answers an HTTP/1 request, GET or HEAD, for one of `paths`. `received` is what has come of it so
// far; bytes after the request are ignored. Null: more is needed. Errors repeat nothing of the
// request, and name the paths.
std::optional<std::string> AnswerHttp(absl::string_view received, absl::Span<const HttpPath> paths);

}  // namespace capstan

#endif  // COMMON_TRANSPORT_GRPC_HTTP_ANSWER_H_
