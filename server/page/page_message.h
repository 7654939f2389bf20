#ifndef SERVER_PAGE_PAGE_MESSAGE_H_
#define SERVER_PAGE_PAGE_MESSAGE_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace capstan {

// A browser's request, as far as the live page looks at it. Missing headers are empty.
struct PageRequest {
  std::string method;
  std::string path;
  std::string host;
  std::string origin;
  std::string fetch_site;  // Sec-Fetch-Site
  std::string cookie;
  std::map<std::string, std::string> fields;  // of a POST's form
};

struct PageAnswer {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};  // beside Content-Type
};

}  // namespace capstan

#endif  // SERVER_PAGE_PAGE_MESSAGE_H_
