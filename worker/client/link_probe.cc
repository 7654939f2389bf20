#include "worker/client/link_probe.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/codec/codec.h"
#include "common/exchange/payload.h"
#include "common/tensor/slicing.h"

namespace capstan {
namespace {

constexpr absl::Duration kMostTime = absl::Seconds(2);
// A longer measurement tells little more.
constexpr absl::Duration kEnoughTime = absl::Milliseconds(500);
constexpr double kMostShareOfTraining = 0.02;
constexpr absl::Duration kRetryDelay = absl::Milliseconds(20);

constexpr size_t kProbeBytes = 64 << 10;
// Probes under way to each server. They take turns on its connections. On a long way they become
// more, as long as they limit the rate.
constexpr uint32_t kFirstLanes = 4;
constexpr uint32_t kMostLanes = 256;
// The first probes only fill the links, one for each lane; they are not counted. The rate is taken
// when each server has sent back kLeastCounted further ones. The measurement ends at the latest
// when a server has sent back kMostCounted of them.
constexpr uint64_t kLeastCounted = 8;
constexpr uint64_t kMostCounted = 4096;
constexpr int kRoundTrips = 4;

// The main thread sends probes. Replies, on any thread, only note what has come back.
class LinkProbe {
 public:
  LinkProbe(std::vector<std::unique_ptr<ParameterEndpoint>> servers, double training_bytes,
            Clock& clock)
      : clock_(clock),
        begin_(clock.Now()),
        end_(begin_ + kMostTime),
        training_bytes_(training_bytes),
        bytes_(std::make_shared<std::vector<uint8_t>>(kProbeBytes)),
        returned_(servers.size()),
        servers_(std::move(servers)) {}

  v1::LinkMeasurement Run() {
    v1::LinkMeasurement links;
    const uint64_t least = (kFirstLanes + kLeastCounted) * kProbeBytes * servers_.size();
    if (static_cast<double>(least) <= kMostShareOfTraining * training_bytes_) {
      const double round_trip = absl::ToDoubleSeconds(MeasureRoundTrip());
      links.set_round_trip_seconds(round_trip);
      links.set_bytes_per_second(MeasureRate(round_trip));
    }
    return links;
  }

 private:
  struct Lane {
    size_t server = 0;
    uint32_t slice = 0;  // chooses the connection
  };

  bool is_late() const { return clock_.Now() >= end_; }
  void PauseAfterLoss() { SleepUntil(clock_, std::min(clock_.Now() + kRetryDelay, end_)); }

  void Send(const Lane& lane, size_t bytes) {
    Payload payload(bytes_);
    payload.Append({bytes_->data(), bytes});
    ExchangeRequest request;
    request.slice.slice = SliceIndex(lane.slice);
    request.purpose = Probe{std::move(payload)};
    servers_[lane.server]->Exchange(
        std::move(request), [] {},
        [this, lane, bytes](ExchangeReply reply) { OnReply(lane, bytes, reply); });
  }

  void OnReply(const Lane& lane, size_t bytes, const ExchangeReply& reply) {
    MutexLock lock(&mu_);
    const bool is_back = reply.status.ok() && reply.values.size_bytes() == bytes;
    if (is_back) ++returned_[lane.server];
    if (!is_back) ++lost_;
    free_.push_back(lane);
    changed_.NotifyAll();
  }

  struct Answers {
    std::vector<Lane> free;  // lanes without a probe under way
    uint64_t lost = 0;       // since the last call
  };

  // Waits for `count` answers, or for the end.
  Answers Await(size_t count) {
    MutexLock lock(&mu_);
    while (free_.size() < count && !is_late()) clock_.WaitUntil(mu_, changed_, end_);
    return {std::exchange(free_, {}), std::exchange(lost_, 0)};
  }

  // The number of probes that the slowest, or the fastest, server has sent back since the last
  // Recount.
  uint64_t Least() {
    MutexLock lock(&mu_);
    return *std::min_element(returned_.begin(), returned_.end());
  }
  uint64_t Most() {
    MutexLock lock(&mu_);
    return *std::max_element(returned_.begin(), returned_.end());
  }
  void Recount() {
    MutexLock lock(&mu_);
    std::fill(returned_.begin(), returned_.end(), 0);
  }

  // The shortest of a few rounds. In each, one byte goes to every server.
  absl::Duration MeasureRoundTrip() {
    absl::Duration shortest = kMostTime;
    for (int rounds = 0; rounds < kRoundTrips && !is_late();) {
      const absl::Time sent = clock_.Now();
      for (size_t server = 0; server < servers_.size(); ++server) Send({server, 0}, 1);
      if (Await(servers_.size()).lost > 0 || is_late()) {
        PauseAfterLoss();
        continue;
      }
      shortest = std::min(shortest, clock_.Now() - sent);
      ++rounds;
    }
    return shortest;
  }

  // Lanes [begin, end) of all servers.
  std::vector<Lane> LanesOf(uint32_t begin, uint32_t end) const {
    std::vector<Lane> lanes;
    for (uint32_t lane = begin; lane < end; ++lane) {
      for (size_t server = 0; server < servers_.size(); ++server) lanes.push_back({server, lane});
    }
    return lanes;
  }

  // In bytes a second; 0 if a server never answered. All servers are to get equal shares of the
  // bytes, so the slowest one counts. If it did not even send one probe back, the rate is at most
  // that of one.
  double MeasureRate(double round_trip) {
    uint32_t lanes = kFirstLanes;
    std::vector<Lane> free = LanesOf(0, lanes);
    bool is_filled = false;  // the links are
    double rate = 0;
    absl::Time counted_from = clock_.Now();
    Recount();
    while (!is_late() && Most() < kMostCounted) {
      for (const Lane& lane : free) Send(lane, kProbeBytes);
      Answers answers = Await(1);
      free = std::move(answers.free);
      if (answers.lost > 0) PauseAfterLoss();
      const absl::Time now = clock_.Now();
      const uint64_t counted = Least();
      if (counted > 0 && now > counted_from) {
        const auto bytes = static_cast<double>(counted * kProbeBytes * servers_.size());
        rate = bytes / absl::ToDoubleSeconds(now - counted_from);
      }
      if (counted < (is_filled ? kLeastCounted : lanes)) continue;
      if (is_filled) {
        const auto under_way = static_cast<double>(lanes * kProbeBytes * servers_.size());
        const bool is_limited = rate * round_trip > under_way / 4 && lanes < kMostLanes;
        const absl::Duration share = absl::Seconds(kMostShareOfTraining * training_bytes_ / rate);
        if (now - begin_ >= (is_limited ? share : std::min(kEnoughTime, share))) break;
        if (!is_limited) continue;
        const std::vector<Lane> more = LanesOf(lanes, 4 * lanes);
        free.insert(free.end(), more.begin(), more.end());
        lanes *= 4;
      }
      is_filled = !is_filled;
      counted_from = now;
      Recount();
    }
    const bool has_answered = round_trip < absl::ToDoubleSeconds(kMostTime);
    if (rate > 0 || !has_answered) return rate;
    return static_cast<double>(kProbeBytes * servers_.size()) /
           absl::ToDoubleSeconds(clock_.Now() - counted_from);
  }

  Clock& clock_;
  const absl::Time begin_;
  const absl::Time end_;
  const double training_bytes_;
  const std::shared_ptr<std::vector<uint8_t>> bytes_;  // of every probe

  Mutex mu_;
  CondVar changed_;
  std::vector<Lane> free_ ABSL_GUARDED_BY(mu_);
  std::vector<uint64_t> returned_ ABSL_GUARDED_BY(mu_);  // by server
  uint64_t lost_ ABSL_GUARDED_BY(mu_) = 0;

  // Destroyed first: their replies come at the latest then.
  std::vector<std::unique_ptr<ParameterEndpoint>> servers_;
};

// The fastest of a few runs of int8, with a residual as for pushes. A clock that stands still tells
// nothing.
void MeasureCodec(Clock& clock, v1::LinkMeasurement& links) {
  constexpr size_t kElements = 256 << 10;
  constexpr int kRuns = 4;
  const std::shared_ptr<const Codec> codec = MakeCodec("int8").value();
  std::vector<float> values(kElements), residual(kElements), sum(kElements);
  std::vector<uint8_t> bytes(codec->EncodedBytes(kElements));
  Random random(/*seed=*/1);
  for (float& value : values) value = random.UniformFloat() - 0.5f;
  absl::Duration encoding = absl::InfiniteDuration(), decoding = absl::InfiniteDuration();
  for (int run = 0; run < kRuns; ++run) {
    const absl::Time begin = clock.Now();
    if (!codec->Encode(values, DrawKey(), absl::MakeSpan(residual), absl::MakeSpan(bytes)).ok()) {
      return;
    }
    const absl::Time encoded = clock.Now();
    codec->DecodeAdd(bytes, kElements, /*begin=*/0, absl::MakeSpan(sum));
    encoding = std::min(encoding, encoded - begin);
    decoding = std::min(decoding, clock.Now() - encoded);
  }
  if (encoding == absl::ZeroDuration() || decoding == absl::ZeroDuration()) return;
  constexpr double kBytes = kElements * sizeof(float);
  links.set_encode_bytes_per_second(kBytes / absl::ToDoubleSeconds(encoding));
  links.set_decode_bytes_per_second(kBytes / absl::ToDoubleSeconds(decoding));
}

}  // namespace

v1::LinkMeasurement MeasureLinks(std::vector<std::unique_ptr<ParameterEndpoint>> servers,
                                 double training_bytes, Clock& clock) {
  const absl::Time begin = clock.Now();
  v1::LinkMeasurement links = LinkProbe(std::move(servers), training_bytes, clock).Run();
  if (links.bytes_per_second() > 0) MeasureCodec(clock, links);
  links.set_seconds(absl::ToDoubleSeconds(clock.Now() - begin));
  return links;
}

}  // namespace capstan
