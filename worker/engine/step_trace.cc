#include "worker/engine/step_trace.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"

namespace capstan {

absl::Status StepTrace::Start(const CudaDevice& device, CudaStream& stream) {
  ASSIGN_OR_RETURN(CudaEvent origin, CudaEvent::Create(device, CudaEvent::Timing::kOn));
  RETURN_IF_ERROR(origin.Record(stream));
  RETURN_IF_ERROR(origin.Wait());
  MutexLock lock(&mu_);
  host_origin_ = clock_->Now();
  origin_ = std::make_unique<CudaEvent>(std::move(origin));
  device_ = &device;
  device_spans_.clear();
  takeable_ = 0;
  host_spans_.clear();
  return absl::OkStatus();
}

absl::Status StepTrace::Begin(const std::string& track, const std::string& name,
                              CudaStream& stream) {
  MutexLock lock(&mu_);
  if (device_ == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(CudaEvent begin, CudaEvent::Create(*device_, CudaEvent::Timing::kOn));
  ASSIGN_OR_RETURN(CudaEvent end, CudaEvent::Create(*device_, CudaEvent::Timing::kOn));
  RETURN_IF_ERROR(begin.Record(stream));
  device_spans_.push_back({track, name, std::move(begin), std::move(end)});
  return absl::OkStatus();
}

absl::Status StepTrace::End(const std::string& track, CudaStream& stream) {
  MutexLock lock(&mu_);
  for (DeviceSpan& span : device_spans_) {
    if (!span.is_open || span.track != track) continue;
    span.is_open = false;
    return span.end.Record(stream);
  }
  return absl::OkStatus();
}

void StepTrace::AddHost(const std::string& track, const std::string& name, absl::Time begin) {
  const absl::Time end = clock_->Now();
  MutexLock lock(&mu_);
  if (device_ == nullptr || begin < host_origin_) return;
  host_spans_.push_back({track, name, begin - host_origin_, end - host_origin_});
}

absl::StatusOr<std::vector<StepTrace::Span>> StepTrace::Finish() {
  MutexLock lock(&mu_);
  device_ = nullptr;
  std::vector<Span> spans = host_spans_;
  for (const DeviceSpan& span : device_spans_) {
    if (span.is_open) continue;
    ASSIGN_OR_RETURN(Span has_run, HasRunLocked(span));
    spans.push_back(std::move(has_run));
  }
  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return a.begin < b.begin; });
  return spans;
}

absl::StatusOr<std::vector<StepTrace::Span>> StepTrace::Take() {
  MutexLock lock(&mu_);
  std::vector<Span> spans;
  for (; takeable_ > 0; --takeable_) {
    ASSIGN_OR_RETURN(Span has_run, HasRunLocked(device_spans_.front()));
    spans.push_back(std::move(has_run));
    device_spans_.pop_front();
  }
  while (takeable_ < device_spans_.size() && !device_spans_[takeable_].is_open) ++takeable_;
  return spans;
}

absl::StatusOr<StepTrace::Span> StepTrace::HasRunLocked(const DeviceSpan& span) const {
  RETURN_IF_ERROR(span.end.Wait());
  ASSIGN_OR_RETURN(const absl::Duration begin, CudaEvent::Between(*origin_, span.begin));
  ASSIGN_OR_RETURN(const absl::Duration end, CudaEvent::Between(*origin_, span.end));
  return Span{span.track, span.name, begin, end};
}

absl::Time StepTrace::origin() const {
  MutexLock lock(&mu_);
  return host_origin_;
}

std::string DrawSpans(const std::vector<StepTrace::Span>& spans, int width) {
  absl::Duration begin = absl::InfiniteDuration(), end = -absl::InfiniteDuration();
  for (const StepTrace::Span& span : spans) {
    begin = std::min(begin, span.begin);
    end = std::max(end, span.end);
  }
  const double total = absl::ToDoubleMilliseconds(end - begin);
  std::string text;
  for (const StepTrace::Span& span : spans) {
    const double from = absl::ToDoubleMilliseconds(span.begin - begin);
    const double to = absl::ToDoubleMilliseconds(span.end - begin);
    const int first = total > 0 ? static_cast<int>(from / total * (width - 1)) : 0;
    const int last = total > 0 ? static_cast<int>(to / total * (width - 1)) : 0;
    absl::StrAppend(&text, absl::StrFormat("%-9s %-14s %10.3f %10.3f ms |%s%s%s|\n", span.track,
                                           span.name, from, to, std::string(first, ' '),
                                           std::string(last - first + 1, '#'),
                                           std::string(width - 1 - last, ' ')));
  }
  return text;
}

}  // namespace capstan
