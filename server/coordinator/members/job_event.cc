#include "server/coordinator/members/job_event.h"

#include <glog/logging.h>

#include "common/base/log_format.h"
#include "common/base/printable_text.h"

namespace capstan {

void Log(const JobEvent& event) {
  const LogDetails details(event.step, event.reason);
  LOG_AT_LEVEL(event.is_warning ? google::GLOG_WARNING : google::GLOG_INFO)
      << PrintableText(event.text);
}

}  // namespace capstan
