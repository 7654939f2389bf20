#ifndef COMMON_METRICS_METRICS_SOURCES_H_
#define COMMON_METRICS_METRICS_SOURCES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/metrics/metrics_page.h"

namespace capstan {

// What a process has to show: functions that read counts when somebody asks. Whoever keeps the
// counts adds one for as long as it lives. Thread-safe.
class MetricsSources {
 public:
  // Adds its samples. Quick; must not call the sources.
  using Source = std::function<void(MetricsPage& page)>;

  // Removes its source at its end, and waits until the source is not running.
  class Registration {
   public:
    Registration() = default;
    Registration(Registration&& other) noexcept
        : sources_(std::exchange(other.sources_, nullptr)), id_(other.id_) {}
    Registration& operator=(Registration&& other) noexcept {
      std::swap(sources_, other.sources_);
      std::swap(id_, other.id_);
      return *this;
    }
    ~Registration() {
      if (sources_ != nullptr) sources_->Remove(id_);
    }

   private:
    friend class MetricsSources;
    Registration(MetricsSources* sources, uint64_t id) : sources_(sources), id_(id) {}

    MetricsSources* sources_ = nullptr;
    uint64_t id_ = 0;
  };

  // The sources outlive the registration.
  [[nodiscard]] Registration Add(Source source);

  // The text of all samples now, with those of the process itself (process_metrics.h).
  std::string Text() const;

 private:
  void Remove(uint64_t id);

  // Sources run under it: a removed one must not be running any more.
  mutable Mutex mu_;
  std::map<uint64_t, Source> sources_ ABSL_GUARDED_BY(mu_);
  uint64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
};

// The text of some sources, made at most once in kLifetime: however often strangers ask, it takes
// little of the process. Not thread-safe.
class RecentText {
 public:
  static constexpr absl::Duration kLifetime = absl::Milliseconds(200);

  // `clock` outlives the object.
  explicit RecentText(const Clock& clock) : clock_(clock) {}
  std::string Get(const MetricsSources& sources);

 private:
  const Clock& clock_;
  absl::Time made_;
  std::string text_;  // empty: none yet
};

// Adds capstan_member_info. `sources` null: nobody asks for metrics.
[[nodiscard]] MetricsSources::Registration AddMemberInfo(MetricsSources* sources,
                                                         absl::string_view role, uint32_t id,
                                                         absl::string_view job_name);

// Adds capstan_coordinator_away_seconds, which is `away`.
[[nodiscard]] MetricsSources::Registration AddCoordinatorAway(MetricsSources& sources,
                                                              std::function<absl::Duration()> away);

}  // namespace capstan

#endif  // COMMON_METRICS_METRICS_SOURCES_H_
