#include "deploy/cli/report_command.h"

#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "deploy/cli/report/chart_page.h"
#include "deploy/cli/report/run_report.h"

namespace capstan {

absl::Status ReportCommand(const std::string& run_dir, const std::string& output,
                           std::ostream& out) {
  ASSIGN_OR_RETURN(const ChartPageContent content, RunReport(run_dir));
  const std::string path = output.empty() ? run_dir + "/report.html" : output;
  std::ofstream file(path, std::ios::trunc);
  file << ChartPage(content);
  file.close();
  if (file.fail()) {
    return absl::UnavailableError(absl::StrCat("expected to write the page to ", path,
                                               ", but cannot; choose another --output"));
  }
  out << path << ": " << content.charts.size() << " charts; open it in a browser" << std::endl;
  return absl::OkStatus();
}

}  // namespace capstan
