#include "common/metrics/metrics_sources.h"

#include "absl/strings/str_cat.h"
#include "common/base/program.h"
#include "common/metrics/process_metrics.h"

namespace capstan {

MetricsSources::Registration MetricsSources::Add(Source source) {
  MutexLock lock(&mu_);
  sources_.emplace(++last_id_, std::move(source));
  return Registration(this, last_id_);
}

void MetricsSources::Remove(uint64_t id) {
  MutexLock lock(&mu_);
  sources_.erase(id);
}

std::string RecentText::Get(const MetricsSources& sources) {
  const absl::Time now = clock_.Now();
  if (text_.empty() || now >= made_ + kLifetime) {
    text_ = sources.Text();
    made_ = now;
  }
  return text_;
}

std::string MetricsSources::Text() const {
  MetricsPage page;
  AddProcessMetrics(page);
  {
    MutexLock lock(&mu_);
    for (const auto& [id, source] : sources_) source(page);
  }
  return page.Text();
}

MetricsSources::Registration AddMemberInfo(MetricsSources* sources, absl::string_view role,
                                           uint32_t id, absl::string_view job_name) {
  if (sources == nullptr) return {};
  return sources->Add([role = std::string(role), id = absl::StrCat(id),
                       job_name = std::string(job_name)](MetricsPage& page) {
    page.Add("capstan_member_info",
             {{"role", role}, {"id", id}, {"job_name", job_name}, {"version", kVersion}}, 1);
  });
}

MetricsSources::Registration AddCoordinatorAway(MetricsSources& sources,
                                                std::function<absl::Duration()> away) {
  return sources.Add([away = std::move(away)](MetricsPage& page) {
    page.Add("capstan_coordinator_away_seconds", absl::ToDoubleSeconds(away()));
  });
}

}  // namespace capstan
