#ifndef TESTS_PROCESS_TCP_PORTS_H_
#define TESTS_PROCESS_TCP_PORTS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>

namespace capstan {

// The listening TCP addresses of the process, in the format of /proc: "0100007F:1F90" is
// 127.0.0.1:8080, with the address bytes in the host's order. A mapped IPv6 address ends like this.
std::set<std::string> ListeningTcpAddresses(pid_t process);
uint16_t TcpPortOf(const std::string& address);

// Connects to the port of this machine, sends the bytes, and returns what comes until the other
// side has closed or is silent for `seconds`. Null: nobody listens.
std::optional<std::string> AskTcpPort(uint16_t port, const std::string& bytes, int seconds);

// AskTcpPort without the answer. False if nobody listens.
bool SendToTcpPort(uint16_t port, const std::string& bytes, int seconds);

}  // namespace capstan

#endif  // TESTS_PROCESS_TCP_PORTS_H_
