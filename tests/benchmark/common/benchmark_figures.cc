#include "tests/benchmark/common/benchmark_figures.h"

#include <arpa/inet.h>
#include <glog/logging.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/process/forked_process.h"

namespace capstan {
namespace {

void ReadAll(int socket, std::vector<char>* message) {
  for (size_t done = 0; done < message->size();) {
    const ssize_t n = read(socket, message->data() + done, message->size() - done);
    if (n <= 0) _exit(0);
    done += static_cast<size_t>(n);
  }
}

void WriteAll(int socket, const std::vector<char>& message) {
  for (size_t done = 0; done < message.size();) {
    const ssize_t n = write(socket, message.data() + done, message.size() - done);
    if (n <= 0) _exit(0);
    done += static_cast<size_t>(n);
  }
}

absl::Duration OwnCpuTime() {
  rusage usage;
  CHECK_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  return absl::DurationFromTimeval(usage.ru_utime) + absl::DurationFromTimeval(usage.ru_stime);
}

void Echo(uint64_t bytes, ForkedProcess::Parent& parent) {
  const int listening = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  CHECK_EQ(bind(listening, reinterpret_cast<sockaddr*>(&address), length), 0);
  CHECK_EQ(listen(listening, 1), 0);
  CHECK_EQ(getsockname(listening, reinterpret_cast<sockaddr*>(&address), &length), 0);
  parent.WriteLine(absl::StrCat(ntohs(address.sin_port)));
  const int client = accept(listening, nullptr, nullptr);
  const int one = 1;
  setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  std::vector<char> message(bytes);
  while (true) {
    ReadAll(client, &message);
    WriteAll(client, message);
  }
}

}  // namespace

BenchmarkFigures MediansOf(const std::vector<BenchmarkFigures>& runs) {
  BenchmarkFigures medians;
  for (const auto& [key, unused] : runs.at(0).items()) {
    std::vector<double> values;
    for (const BenchmarkFigures& figures : runs) values.push_back(figures.at(key));
    std::sort(values.begin(), values.end());
    medians[key] = values[values.size() / 2];
  }
  return medians;
}

void PrintFigures(const BenchmarkFigures& figures) {
  for (const auto& [key, value] : figures.items()) {
    std::cout << absl::StrFormat("%-28s %12.4g\n", key, value.get<double>());
  }
}

double MemcpyGigabytesPerSecond() {
  constexpr size_t kBytes = 64 << 20;
  std::vector<char> from(kBytes, 1), to(kBytes, 2);
  std::vector<double> rates;
  for (int i = 0; i < 9; ++i) {
    const absl::Time begin = absl::Now();
    std::memcpy(to.data(), from.data(), kBytes);
    // Reading the copy keeps the compiler from leaving it out.
    from[i] = static_cast<char>(to[kBytes - 1 - i] + 1);
    rates.push_back(kBytes / absl::ToDoubleSeconds(absl::Now() - begin) / 1e9);
  }
  std::sort(rates.begin(), rates.end());
  return rates[rates.size() / 2];
}

TcpFigures MeasureTcp(uint64_t bytes) {
  ForkedProcess echo([bytes](ForkedProcess::Parent& parent) { Echo(bytes, parent); });
  int port = 0;
  CHECK(absl::SimpleAtoi(echo.ReadLine(), &port));
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  CHECK_EQ(connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const int one = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  std::vector<char> message(bytes, 1);
  const absl::Duration cpu_before = OwnCpuTime() + echo.CpuTime();
  const absl::Time begin = absl::Now();
  uint64_t messages = 0;
  while (absl::Now() - begin < absl::Milliseconds(500)) {
    WriteAll(socket, message);
    ReadAll(socket, &message);
    ++messages;
  }
  const double seconds = absl::ToDoubleSeconds(absl::Now() - begin);
  const absl::Duration cpu = OwnCpuTime() + echo.CpuTime() - cpu_before;
  close(socket);
  const double gigabytes = 2.0 * static_cast<double>(messages * bytes) / 1e9;
  return {gigabytes / seconds, absl::ToDoubleSeconds(cpu) / gigabytes};
}

}  // namespace capstan
