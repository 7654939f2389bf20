#include "server/page/http_text.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace capstan {
namespace {

constexpr absl::string_view kUnwanted[] = {"content-encoding", "expect", "range",
                                           "transfer-encoding"};
constexpr absl::string_view kForm = "application/x-www-form-urlencoded";

// Whether a header can have this name (RFC 9110, 5.6.2). One with a blank is read differently by
// different programs.
bool IsToken(absl::string_view name) {
  constexpr absl::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !name.empty() && std::all_of(name.begin(), name.end(), [kMarks](char c) {
    return absl::ascii_isalnum(c) || kMarks.find(c) != kMarks.npos;
  });
}

bool SaysClose(absl::string_view connection) {
  const std::vector<absl::string_view> options = absl::StrSplit(connection, ',');
  return std::any_of(options.begin(), options.end(), [](absl::string_view option) {
    return absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(option), "close");
  });
}

// What only some requests need.
struct Headers {
  int hosts = 0;    // number of headers with a host
  int lengths = 0;  // number of headers with a length
  bool has_form = false;
};

std::optional<RequestProblem> ParseRequestLine(absl::string_view line, RequestHead& parsed) {
  const std::vector<absl::string_view> parts = absl::StrSplit(line, ' ');
  if (parts.size() != 3 || !absl::StartsWith(parts[2], "HTTP/1.")) {
    return RequestProblem{400, "expected a request of HTTP/1"};
  }
  if (parts[1].size() > kMaxTargetBytes) return RequestProblem{414, "expected a shorter address"};
  parsed.request.method = std::string(parts[0]);
  parsed.request.path = std::string(parts[1].substr(0, parts[1].find('?')));
  parsed.is_last = parts[2] == "HTTP/1.0";
  return std::nullopt;
}

std::optional<RequestProblem> ParseLength(absl::string_view value, size_t& length) {
  if (value.empty() || !std::all_of(value.begin(), value.end(), absl::ascii_isdigit)) {
    return RequestProblem{400, "expected a number of bytes as the length"};
  }
  uint64_t bytes = 0;
  if (!absl::SimpleAtoi(value, &bytes) || bytes > kMaxBodyBytes) {
    return RequestProblem{413, absl::StrCat("expected at most ", kMaxBodyBytes, " bytes")};
  }
  length = bytes;
  return std::nullopt;
}

std::optional<RequestProblem> ParseHeader(absl::string_view line, Headers& headers,
                                          RequestHead& parsed) {
  const size_t colon = line.find(':');
  if (colon == line.npos || !IsToken(line.substr(0, colon))) {
    return RequestProblem{400, "expected headers with a name and a colon"};
  }
  const std::string name = absl::AsciiStrToLower(line.substr(0, colon));
  const std::string value(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  if (std::count(std::begin(kUnwanted), std::end(kUnwanted), name) > 0) {
    return RequestProblem{400, absl::StrCat("expected no header ", name)};
  }
  if (name == "content-length") {
    ++headers.lengths;
    return ParseLength(value, parsed.body_bytes);
  }
  if (name == "host") {
    ++headers.hosts;
    parsed.request.host = value;
  } else if (name == "origin") {
    parsed.request.origin = value;
  } else if (name == "sec-fetch-site") {
    parsed.request.fetch_site = value;
  } else if (name == "cookie") {
    parsed.request.cookie = value;
  } else if (name == "content-type") {
    headers.has_form = absl::StartsWithIgnoreCase(value, kForm);
  } else if (name == "connection") {
    parsed.is_last = parsed.is_last || SaysClose(value);
  }
  return std::nullopt;
}

std::optional<RequestProblem> CheckBody(const Headers& headers, const RequestHead& parsed) {
  if (headers.hosts > 1 || headers.lengths > 1) {
    return RequestProblem{400, "expected one host and one length"};
  }
  if (parsed.request.method != "POST") {
    if (parsed.body_bytes == 0) return std::nullopt;
    return RequestProblem{400, "expected a request without a body"};
  }
  if (headers.lengths == 0) return RequestProblem{411, "expected a length"};
  if (parsed.body_bytes > 0 && !headers.has_form) {
    return RequestProblem{415, absl::StrCat("expected ", kForm)};
  }
  return std::nullopt;
}

// Without "+" and "%41".
std::string Decoded(absl::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_code = text[i] == '%' && i + 2 < text.size() &&
                         absl::ascii_isxdigit(text[i + 1]) && absl::ascii_isxdigit(text[i + 2]);
    if (is_code) {
      decoded += absl::HexStringToBytes(text.substr(i + 1, 2));
      i += 2;
    } else {
      decoded += text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

}  // namespace

std::optional<RequestProblem> ParseHead(absl::string_view head, RequestHead* parsed) {
  if (!absl::ConsumeSuffix(&head, "\r\n\r\n")) {
    return RequestProblem{400, "expected lines that end with CR and LF"};
  }
  const std::vector<absl::string_view> lines = absl::StrSplit(head, "\r\n");
  for (const absl::string_view line : lines) {
    if (std::any_of(line.begin(), line.end(), absl::ascii_iscntrl)) {
      return RequestProblem{400, "expected no control characters"};
    }
  }
  if (auto problem = ParseRequestLine(lines[0], *parsed)) return problem;
  if (lines.size() > kMaxHeaders + 1) {
    return RequestProblem{431, absl::StrCat("expected at most ", kMaxHeaders, " headers")};
  }
  Headers headers;
  for (size_t i = 1; i < lines.size(); ++i) {
    if (auto problem = ParseHeader(lines[i], headers, *parsed)) return problem;
  }
  return CheckBody(headers, *parsed);
}

std::map<std::string, std::string> ParseForm(absl::string_view body) {
  std::map<std::string, std::string> fields;
  for (const absl::string_view field : absl::StrSplit(body, '&', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(field, absl::MaxSplits('=', 1));
    fields.emplace(Decoded(parts.first), Decoded(parts.second));
  }
  return fields;
}

std::string AnswerText(const PageAnswer& answer, bool has_body, bool is_last) {
  std::string text =
      absl::StrCat("HTTP/1.1 ", answer.status, answer.status < 400 ? " OK" : " Refused",
                   "\r\nContent-Type: ", answer.content_type,
                   "\r\nContent-Length: ", answer.body.size(), "\r\n");
  for (const auto& [name, value] : answer.headers)
    absl::StrAppend(&text, name, ": ", value, "\r\n");
  absl::StrAppend(&text, is_last ? "Connection: close\r\n\r\n" : "\r\n");
  if (has_body) text += answer.body;
  return text;
}

}  // namespace capstan
