#include "tests/benchmark/exchange/server_load.h"

#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/exchange/payload.h"

namespace capstan {
namespace {

size_t Elements(const BenchmarkJob& job) { return job.slice_bytes / sizeof(float); }

// With every optimizer a first gradient of 1 takes values from 0 to minus the learning rate.
// Nesterov's look ahead adds its momentum of 0.9.
absl::Status CheckFirstUpdate(const BenchmarkJob& job, absl::Span<const float> values) {
  const double expected = -job.learning_rate * (job.optimizer == "nesterov" ? 1.9 : 1);
  for (const float value : values) {
    if (std::abs(value - expected) <= 1e-4 * std::abs(expected)) continue;
    return absl::InternalError(
        absl::StrCat(job.optimizer, ": expected ", expected, " everywhere, got ", value));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServerLoad>> ApplyLoad::Create(const BenchmarkJob& job) {
  auto apply = std::unique_ptr<ApplyLoad>(new ApplyLoad(job));
  ASSIGN_OR_RETURN(apply->optimizer_, job.MakeOptimizer());
  apply->gradient_ = HostBuffer(Elements(job));
  std::fill_n(apply->gradient_.data(), Elements(job), 1.0f);
  apply->values_ = HostBuffer(Elements(job));
  for (int i = 0; i < apply->optimizer_->state_count(); ++i) {
    apply->state_.emplace_back(Elements(job));
  }
  for (HostBuffer& array : apply->state_) apply->state_spans_.push_back(array.span());
  return apply;
}

void ApplyLoad::Run() {
  const HostBuffer& gradient = gradient_;
  optimizer_->Apply(gradient.span(), {++application_}, values_.span(), state_spans_);
}

absl::Status ApplyLoad::Check() { return CheckFirstUpdate(job_, values_.span()); }

uint64_t ApplyLoad::traffic_bytes() const {
  return job_.slice_bytes * (1 + 2 * (1 + state_.size()));
}

uint64_t ApplyLoad::memory_bytes() const { return job_.slice_bytes * (2 + state_.size()); }

HostLoad::HostLoad(const BenchmarkJob& job, std::shared_ptr<ShardHost> host, Part part)
    : job_(job),
      host_(std::move(host)),
      part_(part),
      state_count_(static_cast<uint64_t>((*job.MakeOptimizer())->state_count())) {
  // The host and this hold no more at once.
  std::vector<std::shared_ptr<uint8_t>> buffers;
  for (int i = 0; i <= part.num_workers; ++i) {
    buffers.push_back(received_.Take(job.slice_bytes));
    Fill(buffers.back().get());
  }
}

absl::StatusOr<std::unique_ptr<ServerLoad>> HostLoad::Create(const BenchmarkJob& job) {
  ASSIGN_OR_RETURN(std::shared_ptr<ShardHost> host, job.MakeHost(/*server=*/0));
  Part part;
  part.num_workers = job.num_workers;
  part.num_slices = static_cast<uint32_t>(job.table_bytes / job.slice_bytes);
  return std::make_unique<HostLoad>(job, std::move(host), part);
}

void HostLoad::Fill(uint8_t* gradient) const {
  std::fill_n(reinterpret_cast<float*>(gradient), Elements(job_), 1.0f);
}

void HostLoad::Push(ExchangeRequest&& request) {
  host_->Exchange(
      std::move(request), [] {},
      [](const ExchangeReply& reply) { CHECK(reply.status.ok()) << reply.status; });
}

void HostLoad::Run() {
  for (uint32_t slice = 0; slice < part_.num_slices; ++slice) {
    for (int worker = 0; worker < part_.num_workers; ++worker) {
      ExchangeRequest request =
          job_.RequestOf(part_.first_worker + worker, part_.first_slice + slice);
      std::shared_ptr<uint8_t> gradient = received_.Take(job_.slice_bytes);
      // Larger ones come from the buffers that the constructor filled.
      if (job_.slice_bytes < BufferPool::kLeastBytes) Fill(gradient.get());
      DenseStep step;
      step.push = {step_, Gradient{Payload::Exclusive(std::move(gradient), job_.slice_bytes)}};
      if (job_.consistency == ConsistencyMode::kAsync) step.pull = {step_ + 1};
      request.purpose = std::move(step);
      Push(std::move(request));
    }
  }
  step_ = step_ + 1;
}

absl::Status HostLoad::Check() {
  for (uint32_t slice = 0; slice < part_.num_slices; ++slice) {
    ExchangeRequest request = job_.RequestOf(part_.first_worker, part_.first_slice + slice);
    request.purpose = DenseStep{std::nullopt, StepPull{step_}};
    ExchangeReply reply = ErrorReply(absl::InternalError("no reply"));
    host_->Exchange(
        std::move(request), [] {}, [&reply](ExchangeReply got) { reply = std::move(got); });
    RETURN_IF_ERROR(reply.status);
    std::vector<float> values(Elements(job_));
    reply.values.CopyTo(absl::MakeSpan(values));
    RETURN_IF_ERROR(CheckFirstUpdate(job_, values));
  }
  return absl::OkStatus();
}

uint64_t HostLoad::traffic_bytes() const {
  const auto gradients = static_cast<uint64_t>(part_.num_workers);
  const uint64_t applications = job_.consistency == ConsistencyMode::kAsync ? gradients : 1;
  return job_.slice_bytes * part_.num_slices * (gradients + applications * 2 * (1 + state_count_));
}

uint64_t HostLoad::memory_bytes() const {
  const auto gradients = static_cast<uint64_t>(part_.num_workers);
  return job_.slice_bytes * part_.num_slices * (gradients + 1 + state_count_);
}

}  // namespace capstan
