#include "worker/dataset/sparse/prefetching_stream.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace capstan {

absl::StatusOr<std::unique_ptr<PrefetchingStream>> PrefetchingStream::Create(
    const Options& options, std::unique_ptr<SampleStream> source, Clock* clock) {
  if (options.batch_size == 0 || options.batches_ahead == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected a batch size and a number of batches ahead of at least 1, got ",
        options.batch_size, " and ", options.batches_ahead, ": read without a thread instead"));
  }
  return std::unique_ptr<PrefetchingStream>(
      new PrefetchingStream(options, std::move(source), clock));
}

PrefetchingStream::PrefetchingStream(const Options& options, std::unique_ptr<SampleStream> source,
                                     Clock* clock)
    : options_(options), source_(std::move(source)), clock_(clock), thread_([this] { Run(); }) {}

PrefetchingStream::~PrefetchingStream() {
  {
    MutexLock lock(&mu_);
    is_stopping_ = true;
    changed_.NotifyAll();
  }
  source_->Cancel();
  thread_.join();
}

absl::StatusOr<size_t> PrefetchingStream::Next(size_t most, SparseBatch* batch) {
  if (most < options_.batch_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected batches of at least ", options_.batch_size,
                     " samples, as they are read ahead, got ", most, ": ask for more samples"));
  }
  MutexLock lock(&mu_);
  while (ready_.empty()) clock_->WaitUntil(mu_, changed_, absl::InfiniteFuture());
  Result& first = ready_.front();
  pass_samples_ = first.pass_samples;
  if (first.is_last()) {
    batch->Clear();
    return first.count;
  }
  const size_t count = *first.count;
  std::swap(*batch, first.batch);
  free_.push_back(std::move(first.batch));
  ready_.pop_front();
  changed_.NotifyAll();
  return count;
}

bool PrefetchingStream::MayReadLocked() const { return ready_.size() < options_.batches_ahead; }

void PrefetchingStream::Run() {
  bool is_last = false;
  while (!is_last) {
    Result result = {size_t{0}, SparseBatch(), 0};
    {
      MutexLock lock(&mu_);
      while (!is_stopping_ && !MayReadLocked()) {
        clock_->WaitUntil(mu_, changed_, absl::InfiniteFuture());
      }
      if (is_stopping_) return;
      if (!free_.empty()) {
        result.batch = std::move(free_.back());
        free_.pop_back();
      }
    }
    result.count = source_->Next(options_.batch_size, &result.batch);
    result.pass_samples = source_->pass_samples();
    is_last = result.is_last();
    MutexLock lock(&mu_);
    ready_.push_back(std::move(result));
    changed_.NotifyAll();
  }
}

}  // namespace capstan
