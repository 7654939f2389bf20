#include "common/transport/grpc/http_answer.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace capstan {
namespace {

// The whole answer. HEAD gets what GET would get, without the body.
std::string Text(const HttpAnswer& answer, bool is_head = false, absl::string_view header = "") {
  return absl::StrCat("HTTP/1.1 ", answer.status, "\r\nContent-Type: ", answer.content_type,
                      "\r\nContent-Length: ", answer.body.size(), "\r\n", header,
                      "Cache-Control: no-store\r\n"
                      "Connection: close\r\n\r\n",
                      is_head ? "" : answer.body);
}

std::string Error(absl::string_view status, absl::string_view line, bool is_head = false,
                  absl::string_view header = "") {
  HttpAnswer answer;
  answer.status = status;
  answer.body = absl::StrCat(line, "\n");
  return Text(answer, is_head, header);
}

// "/healthz or /readyz"
std::string Names(absl::Span<const HttpPath> paths) {
  return absl::StrJoin(paths, " or ", [](std::string* out, const HttpPath& path) {
    absl::StrAppend(out, path.path);
  });
}

std::string BadRequest(absl::Span<const HttpPath> paths) {
  return Error("400 Bad Request", absl::StrCat("expected GET or HEAD of ", Names(paths),
                                               " over HTTP/1.0 or 1.1, in at most 4 KiB"));
}

bool HasWholeHead(absl::string_view received) {
  // People who type a request by hand send no carriage returns.
  return received.find("\n\r\n") != absl::string_view::npos ||
         received.find("\n\n") != absl::string_view::npos;
}

}  // namespace

std::optional<std::string> AnswerHttp(absl::string_view received,
                                      absl::Span<const HttpPath> paths) {
  received = received.substr(0, kMaxHttpRequestBytes);
  const absl::string_view line = absl::StripSuffix(received.substr(0, received.find('\n')), "\r");
  // What is no text is no HTTP/1, such as the greeting of TLS, and may have no end.
  if (!std::all_of(line.begin(), line.end(), absl::ascii_isprint)) return BadRequest(paths);
  if (!HasWholeHead(received)) {
    if (received.size() < kMaxHttpRequestBytes) return std::nullopt;
    return BadRequest(paths);
  }
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  if (words.size() != 3 || words[0].empty() || (words[2] != "HTTP/1.0" && words[2] != "HTTP/1.1")) {
    return BadRequest(paths);
  }
  const bool is_head = words[0] == "HEAD";
  const auto path = std::find_if(paths.begin(), paths.end(), [&words](const HttpPath& known) {
    return words[1] == known.path;
  });
  if (path == paths.end()) {
    return Error("404 Not Found", absl::StrCat("expected ", Names(paths)), is_head);
  }
  if (words[0] != "GET" && !is_head) {
    return Error("405 Method Not Allowed", "expected GET or HEAD", /*is_head=*/false,
                 "Allow: GET, HEAD\r\n");
  }
  return Text(path->answer(), is_head);
}

}  // namespace capstan
