#ifndef SERVER_PAGE_STATUS_JSON_H_
#define SERVER_PAGE_STATUS_JSON_H_

#include <string>
#include <vector>

#include "proto/coordinator_service.pb.h"

namespace capstan {

// What the page shows, as JSON for its script. Numbers have the names and units of v1.Progress. A
// NaN or an infinity is null. Texts that peers have sent are not changed, so the script must show
// them as text.
std::string StatusJson(const v1::GetStatusReply& status, const std::vector<std::string>& log,
                       bool has_login, bool may_operate);

}  // namespace capstan

#endif  // SERVER_PAGE_STATUS_JSON_H_
