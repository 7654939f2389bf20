#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/transport/ucx/ucx_transport.h"
#include "server/shard/owner_threads.h"
#include "tests/cluster/bsp_bits.h"
#include "tests/cluster/cluster_transport.h"
#include "tests/cluster/codec_training.h"
#include "tests/transport/ucx_test_server.h"

namespace capstan {
namespace {

// One UCX thread for all servers and one for all workers. Servers hand the jobs' larger slices over
// to owner threads.
class UcxClusterTransport : public ClusterTransport {
 public:
  explicit UcxClusterTransport(Clock* clock) : clock_(clock) {
    UcxTransport::Options options;
    options.clock = clock;
    servers_ = StartUcxTransport(options).value();
    workers_ = StartUcxTransport(options).value();
  }

  std::string Listen(ParameterEndpoint* server) override {
    MutexLock lock(&mu_);
    constexpr size_t kHandOverBytes = 2048;
    owners_.push_back(std::make_unique<OwnerThreads>(server, clock_, /*count=*/2, kHandOverBytes));
    listeners_.push_back(std::make_unique<UcxTestServer>(servers_.get(), owners_.back().get()));
    return listeners_.back()->address();
  }
  void StopListening() override {
    MutexLock lock(&mu_);
    listeners_.clear();
    owners_.clear();
  }
  std::unique_ptr<ParameterEndpoint> Connect(const std::string& address) override {
    return workers_->Connect(address);
  }

 private:
  Clock* const clock_;
  std::unique_ptr<UcxTransport> servers_;
  std::unique_ptr<UcxTransport> workers_;
  Mutex mu_;
  std::vector<std::unique_ptr<OwnerThreads>> owners_ ABSL_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<UcxTestServer>> listeners_ ABSL_GUARDED_BY(mu_);
};

std::unique_ptr<ClusterTransport> Ucx(Clock* clock) {
  return std::make_unique<UcxClusterTransport>(clock);
}

TEST(UcxClusterTest, BspHasTheBitsOfTheSerialProgramWhateverTheLayout) {
  ExpectSameBitsWhateverTheLayout(Ucx);
}

TEST(UcxClusterTest, BspHasTheSameBitsWithMeasuredLinks) { ExpectSameBitsWithMeasuredLinks(Ucx); }

TEST(UcxClusterTest, BspHasTheSameBitsUnderFaults) { ExpectSameBitsUnderFaults(Ucx); }

TEST(UcxClusterTest, EveryCodecTrainsUnderFaults) { ExpectCodecsTrainUnderFaults(Ucx); }

TEST(UcxClusterTest, ADivergingJobEndsEverywhereWithItsReason) { ExpectDivergenceIsReported(Ucx); }

}  // namespace
}  // namespace capstan
