#include "tests/metrics/prometheus_process.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "common/base/json_fields.h"
#include "common/base/real_clock.h"
#include "tests/process/tcp_ports.h"

namespace capstan {
namespace {

using ::nlohmann::json;

constexpr char kName[] = "prometheus";
constexpr char kExample[] = "deploy/prometheus/prometheus.yaml";
constexpr char kRules[] = "deploy/prometheus/rules.yaml";
constexpr absl::Duration kPatience = absl::Seconds(20);

std::string UrlText(absl::string_view text) {
  std::string url;
  for (const char c : text) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c))) {
      url.push_back(c);
    } else {
      absl::StrAppendFormat(&url, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return url;
}

// The body of the answer to a GET, or "".
std::string HttpGet(uint16_t port, const std::string& path_and_query) {
  const std::string answer =
      AskTcpPort(port, absl::StrCat("GET ", path_and_query, " HTTP/1.0\r\n\r\n"), /*seconds=*/10)
          .value_or("");
  const size_t end_of_head = answer.find("\r\n\r\n");
  return end_of_head == std::string::npos ? "" : answer.substr(end_of_head + 4);
}

// The example configuration for these targets, faster than people need it.
std::string Config(const std::string& targets) {
  std::string config = ReadFile(kExample);
  const size_t hosts = config.find("static_configs:");
  EXPECT_NE(hosts, std::string::npos) << kExample;
  config.resize(std::min(hosts, config.size()));
  const int replaced =
      absl::StrReplaceAll({{"_interval: 5s", "_interval: 500ms"},
                           {"- rules.yaml", "- " + std::filesystem::absolute(kRules).string()}},
                          &config);
  EXPECT_EQ(replaced, 3) << kExample;
  return absl::StrCat(config, "file_sd_configs: [{files: ['", targets,
                      "'], refresh_interval: 500ms}]\n");
}

}  // namespace

void PrometheusProcess::Start() {
  const std::string config = processes_.path("prometheus.yaml");
  std::ofstream(config) << Config(processes_.path("targets.json"));
  processes_.Start(kName, "/usr/bin/prometheus",
                   {"--config.file=" + config, "--web.listen-address=127.0.0.1:0",
                    "--storage.tsdb.path=" + processes_.path("prometheus")});
  started_ = RealClock().Now();
  const bool is_ready = processes_.WaitUntil(kPatience, [this] {
    const std::set<std::string> addresses = ListeningTcpAddresses(processes_.pid(kName));
    if (addresses.empty()) return false;
    port_ = TcpPortOf(*addresses.begin());
    return HttpGet(port_, "/-/ready").find("Ready") != std::string::npos;
  });
  ASSERT_TRUE(is_ready) << processes_.Log(kName);
}

void PrometheusProcess::AddTarget(const std::string& address) {
  targets_.push_back(address);
  const std::string path = processes_.path("targets.json");
  const json groups = json::array({{{"targets", targets_}}});
  std::ofstream(path + ".tmp") << groups.dump();
  std::filesystem::rename(path + ".tmp", path);
}

json PrometheusProcess::Get(const std::string& path_and_query) {
  json answer = ParseJson(HttpGet(port_, path_and_query));
  if (answer.is_object() && TextIn(answer, "status") == "success") return answer["data"];
  ADD_FAILURE() << path_and_query << ": " << (answer.is_object() ? answer.dump() : "no JSON")
                << "\n"
                << processes_.Log(kName);
  return nullptr;
}

json PrometheusProcess::Query(const std::string& expression) {
  json data = Get("/api/v1/query?query=" + UrlText(expression));
  return data.is_null() ? data : data["result"];
}

std::optional<double> PrometheusProcess::Value(const std::string& expression) {
  const json result = Query(expression);
  double value = 0;
  if (!result.is_array() || result.size() != 1) return std::nullopt;
  if (!absl::SimpleAtod(result[0]["value"][1].get<std::string>(), &value)) return std::nullopt;
  return value;
}

json PrometheusProcess::History(const std::string& expression) {
  json data = Get(absl::StrCat("/api/v1/query_range?query=", UrlText(expression),
                               "&start=", absl::ToUnixSeconds(started_),
                               "&end=", absl::ToUnixSeconds(RealClock().Now()), "&step=1"));
  return data.is_null() ? data : data["result"];
}

bool PrometheusProcess::WaitFor(const std::string& expression, absl::Duration timeout) {
  return processes_.WaitUntil(timeout, [&] {
    const json result = Query(expression);
    return !result.is_array() || !result.empty();  // An error does not get better.
  });
}

json PrometheusProcess::RuleGroups() {
  json data = Get("/api/v1/rules");
  return data.is_null() ? data : data["groups"];
}

}  // namespace capstan
