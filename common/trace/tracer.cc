#include "common/trace/tracer.h"

#include <glog/logging.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace capstan {
namespace {

// A write happens when this many bytes have come together, or after this time.
constexpr size_t kWriteBytes = 256 << 10;
constexpr absl::Duration kWriteInterval = absl::Milliseconds(200);

absl::Status WriteError(const std::string& path) {
  return absl::UnavailableError(absl::StrCat("trace file ", path, ": cannot be written (",
                                             std::strerror(errno),
                                             "); give --trace a file in a folder with space"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tracer>> Tracer::Create(const Options& options) {
  FILE* const file = std::fopen(options.path.c_str(), "wb");
  if (file == nullptr) return WriteError(options.path);
  // Without a buffer in this process, a kill loses nothing that was written.
  std::setvbuf(file, nullptr, _IONBF, 0);
  return std::unique_ptr<Tracer>(new Tracer(options, file));
}

Tracer::Tracer(const Options& options, FILE* file)
    : options_(options), begin_(Now()), written_at_(begin_), file_(file) {
  MutexLock lock(&file_mu_);
  WriteLocked(absl::StrCat("[\n", ClockEvent(begin_, options.clock_offset), ",\n",
                           TrackNameEvent(kExchangesTrack, "exchanges"), ",\n"));
}

Tracer::~Tracer() {
  MutexLock lock(&file_mu_);
  WriteLocked(TakeUnwritten());
  if (file_ != nullptr) std::fclose(file_);
}

void Tracer::NameProcess(absl::string_view name, int rank) {
  AppendMetadata(ProcessNameEvent(name));
  AppendMetadata(ProcessRankEvent(rank));
}

int Tracer::Track(const std::string& name) {
  int track;
  {
    MutexLock lock(&mu_);
    const auto [entry, is_new] =
        tracks_.emplace(name, kExchangesTrack + 1 + static_cast<int>(tracks_.size()));
    track = entry->second;
    if (!is_new) return track;
  }
  AppendMetadata(TrackNameEvent(track, name));
  return track;
}

void Tracer::AddSpan(int track, absl::string_view name, absl::Time begin, absl::Time end,
                     const TraceArgs& args) {
  Append(SpanEvent(track, name, begin - begin_, end - begin_, args) + ",\n", /*count=*/1);
}

void Tracer::AddExchange(absl::string_view name, absl::Span<const Phase> phases, absl::Time end,
                         const TraceArgs& args) {
  uint64_t id;
  {
    MutexLock lock(&mu_);
    id = ++last_exchange_;
  }
  std::string events = AsyncBeginEvent(id, name, phases[0].begin - begin_, args) + ",\n";
  for (size_t i = 0; i < phases.size(); ++i) {
    const absl::Time phase_end = i + 1 < phases.size() ? phases[i + 1].begin : end;
    absl::StrAppend(&events, AsyncBeginEvent(id, phases[i].name, phases[i].begin - begin_, {}),
                    ",\n", AsyncEndEvent(id, phases[i].name, phase_end - begin_), ",\n");
  }
  absl::StrAppend(&events, AsyncEndEvent(id, name, end - begin_), ",\n");
  Append(events, /*count=*/2 + 2 * static_cast<int64_t>(phases.size()));
}

void Tracer::Append(const std::string& events, int64_t count) {
  {
    const absl::Time now = Now();
    MutexLock lock(&mu_);
    if (events_ + count > options_.max_events) {
      left_out_ += count;
      return;
    }
    events_ += count;
    unwritten_ += events;
    if (unwritten_.size() < kWriteBytes && now - written_at_ < kWriteInterval) return;
    written_at_ = now;
  }
  MutexLock lock(&file_mu_);
  WriteLocked(TakeUnwritten());
}

std::string Tracer::TakeUnwritten() {
  MutexLock lock(&mu_);
  return std::exchange(unwritten_, "");
}

void Tracer::WriteLocked(const std::string& text) {
  if (file_ == nullptr) return;
  has_failed_ |= std::fwrite(text.data(), 1, text.size(), file_) != text.size();
}

absl::Status Tracer::Finish() {
  int64_t left_out;
  {
    MutexLock lock(&mu_);
    left_out = left_out_;
  }
  if (left_out > 0) {
    LOG(WARNING) << "trace file " << options_.path << " has the first " << options_.max_events
                 << " events; " << left_out << " later ones are left out";
  }
  MutexLock lock(&file_mu_);
  WriteLocked(absl::StrCat(TakeUnwritten(), EndEvent(left_out), "\n]\n"));
  has_failed_ |= std::fclose(std::exchange(file_, nullptr)) != 0;
  return has_failed_ ? WriteError(options_.path) : absl::OkStatus();
}

}  // namespace capstan
