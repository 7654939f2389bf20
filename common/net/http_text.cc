#include "common/net/http_text.h"

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

// What only the reader of a request needs.
struct Headers {
  int hosts = 0;    // number of headers with a host
  int lengths = 0;  // number of headers with a length
  size_t body_bytes = 0;
  bool has_form = false;
};

// What RFC 9110 calls the status. Programs do not read it.
absl::string_view Phrase(int status) {
  switch (status) {
    case 303:
      return "See Other";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 503:
      return "Service Unavailable";
    default:
      return status < 400 ? "OK" : "Refused";
  }
}

HttpAnswer Refusal(int status, absl::string_view text) {
  HttpAnswer answer;
  answer.status = status;
  answer.body = absl::StrCat(text, "\n");
  return answer;
}

std::optional<HttpAnswer> ParseRequestLine(absl::string_view line, ReceivedRequest& parsed) {
  const std::vector<absl::string_view> parts = absl::StrSplit(line, ' ');
  if (parts.size() != 3 || !IsToken(parts[0]) ||
      (parts[2] != "HTTP/1.0" && parts[2] != "HTTP/1.1")) {
    return Refusal(400, "expected a request of HTTP/1");
  }
  if (parts[1].size() > kMaxTargetBytes) return Refusal(414, "expected a shorter address");
  parsed.request.method = std::string(parts[0]);
  parsed.request.path = std::string(parts[1].substr(0, parts[1].find('?')));
  parsed.is_last = parsed.is_last || parts[2] == "HTTP/1.0";
  return std::nullopt;
}

std::optional<HttpAnswer> ParseLength(absl::string_view value, size_t& length) {
  if (value.empty() || !std::all_of(value.begin(), value.end(), absl::ascii_isdigit)) {
    return Refusal(400, "expected a number of bytes as the length");
  }
  uint64_t bytes = 0;
  if (!absl::SimpleAtoi(value, &bytes) || bytes > kMaxBodyBytes) {
    return Refusal(413, absl::StrCat("expected at most ", kMaxBodyBytes, " bytes"));
  }
  length = bytes;
  return std::nullopt;
}

std::optional<HttpAnswer> ParseHeader(absl::string_view line, Headers& headers,
                                      ReceivedRequest& parsed) {
  const size_t colon = line.find(':');
  if (colon == line.npos || !IsToken(line.substr(0, colon))) {
    return Refusal(400, "expected headers with a name and a colon");
  }
  const std::string name = absl::AsciiStrToLower(line.substr(0, colon));
  const std::string value(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  if (std::count(std::begin(kUnwanted), std::end(kUnwanted), name) > 0) {
    return Refusal(400, absl::StrCat("expected no header ", name));
  }
  if (name == "content-length") {
    ++headers.lengths;
    return ParseLength(value, headers.body_bytes);
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

std::optional<HttpAnswer> CheckBody(const Headers& headers, absl::string_view method) {
  if (headers.hosts > 1 || headers.lengths > 1) {
    return Refusal(400, "expected one host and one length");
  }
  if (method != "POST") {
    if (headers.body_bytes == 0) return std::nullopt;
    return Refusal(400, "expected a request without a body");
  }
  if (headers.lengths == 0) return Refusal(411, "expected a length");
  if (headers.body_bytes > 0 && !headers.has_form) {
    return Refusal(415, absl::StrCat("expected ", kForm));
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

std::map<std::string, std::string> ParseForm(absl::string_view body) {
  std::map<std::string, std::string> fields;
  for (const absl::string_view field : absl::StrSplit(body, '&', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(field, absl::MaxSplits('=', 1));
    fields.emplace(Decoded(parts.first), Decoded(parts.second));  // the first of a name counts
  }
  return fields;
}

// The bytes of the head, with the empty line at its end. Also of what cannot become a head. 0: more
// is needed.
size_t HeadBytes(absl::string_view received) {
  received = received.substr(0, kMaxHeadBytes);
  const auto end_of = [received](absl::string_view text) {
    const size_t found = received.find(text);
    return found == received.npos ? received.npos : found + text.size();
  };
  // What is no text may have no end, such as the greeting of TLS.
  const auto unprintable = std::find_if(received.begin(), received.end(), [](char c) {
    return absl::ascii_iscntrl(c) && c != '\r' && c != '\n' && c != '\t';
  });
  const size_t text_bytes = unprintable - received.begin();
  const size_t bytes = std::min({end_of("\n\r\n"), end_of("\n\n"), text_bytes + 1});
  if (bytes <= received.size()) return bytes;
  return received.size() < kMaxHeadBytes ? 0 : kMaxHeadBytes;
}

std::optional<HttpAnswer> ParseHead(absl::string_view head, Headers& headers,
                                    ReceivedRequest& parsed) {
  const bool has_returns = absl::ConsumeSuffix(&head, "\r\n\r\n");
  // People who type a request send no carriage returns. No other request follows: programs differ
  // in where such a one ends.
  parsed.is_last = !has_returns && absl::ConsumeSuffix(&head, "\n\n");
  if (!has_returns && !parsed.is_last) {
    return Refusal(400, absl::StrCat("expected lines of text and an empty one, in at most ",
                                     kMaxHeadBytes, " bytes"));
  }
  const std::vector<absl::string_view> lines = absl::StrSplit(head, has_returns ? "\r\n" : "\n");
  for (const absl::string_view line : lines) {
    if (std::any_of(line.begin(), line.end(),
                    [](char c) { return absl::ascii_iscntrl(c) && c != '\t'; })) {
      return Refusal(400, "expected no control characters");
    }
  }
  if (auto refusal = ParseRequestLine(lines[0], parsed)) return refusal;
  if (lines.size() > kMaxHeaders + 1) {
    return Refusal(431, absl::StrCat("expected at most ", kMaxHeaders, " headers"));
  }
  for (size_t i = 1; i < lines.size(); ++i) {
    if (auto refusal = ParseHeader(lines[i], headers, parsed)) return refusal;
  }
  return CheckBody(headers, parsed.request.method);
}

}  // namespace

std::optional<ReceivedRequest> ReadRequest(absl::string_view received) {
  const size_t head_bytes = HeadBytes(received);
  if (head_bytes == 0) return std::nullopt;
  ReceivedRequest parsed;
  Headers headers;
  parsed.refusal = ParseHead(received.substr(0, head_bytes), headers, parsed);
  parsed.is_last = parsed.is_last || parsed.refusal.has_value();
  parsed.size = head_bytes + (parsed.refusal.has_value() ? 0 : headers.body_bytes);
  if (received.size() < parsed.size) return std::nullopt;
  if (!parsed.refusal.has_value()) {
    parsed.request.fields = ParseForm(received.substr(head_bytes, headers.body_bytes));
  }
  return parsed;
}

std::string AnswerText(const HttpAnswer& answer, bool has_body, bool is_last) {
  std::string text =
      absl::StrCat("HTTP/1.1 ", answer.status, " ", Phrase(answer.status),
                   "\r\nContent-Type: ", answer.content_type,
                   "\r\nContent-Length: ", answer.body.size(), "\r\nCache-Control: no-store\r\n");
  for (const auto& [name, value] : answer.headers)
    absl::StrAppend(&text, name, ": ", value, "\r\n");
  absl::StrAppend(&text, is_last ? "Connection: close\r\n\r\n" : "\r\n");
  if (has_body) text += answer.body;
  return text;
}

}  // namespace capstan
