#include "tests/process/tcp_ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace capstan {
namespace {

// The kernel's names of open sockets, as in "socket:[4711]".
std::set<std::string> SocketsOf(pid_t process) {
  std::set<std::string> sockets;
  std::error_code error;
  const std::string folder = "/proc/" + std::to_string(process) + "/fd";
  for (const auto& file : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = std::filesystem::read_symlink(file.path(), error).string();
    if (name.rfind("socket:", 0) == 0) sockets.insert(name);
  }
  return sockets;
}

}  // namespace

std::set<std::string> ListeningTcpAddresses(pid_t process) {
  const std::string listens = "0A";  // TCP_LISTEN
  const std::set<std::string> sockets = SocketsOf(process);
  std::set<std::string> addresses;
  for (const char* const table : {"tcp", "tcp6"}) {
    std::ifstream lines("/proc/" + std::to_string(process) + "/net/" + table);
    std::string line;
    while (std::getline(lines, line)) {
      std::istringstream words(line);
      std::string number, local, remote, state, queues, timer, retries, user, timeout, inode;
      words >> number >> local >> remote >> state >> queues >> timer >> retries >> user >>
          timeout >> inode;
      if (state != listens || sockets.count("socket:[" + inode + "]") == 0) continue;
      addresses.insert(local);
    }
  }
  return addresses;
}

uint16_t TcpPortOf(const std::string& address) {
  return static_cast<uint16_t>(
      std::stoul(address.substr(address.rfind(':') + 1), nullptr, /*base=*/16));
}

std::optional<std::string> AskTcpPort(uint16_t port, const std::string& bytes, int seconds) {
  const int socket_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience = {seconds, 0};
  setsockopt(socket_fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::optional<std::string> answer;
  if (connect(socket_fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    answer.emplace();
    send(socket_fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    char part[256];
    ssize_t size = 0;
    while ((size = recv(socket_fd, part, sizeof(part), 0)) > 0) answer->append(part, size);
  }
  close(socket_fd);
  return answer;
}

bool SendToTcpPort(uint16_t port, const std::string& bytes, int seconds) {
  return AskTcpPort(port, bytes, seconds).has_value();
}

}  // namespace capstan
