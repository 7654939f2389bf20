#include "worker/engine/batch_feed.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "worker/engine/training_rig.h"

namespace capstan {
namespace {

constexpr int kFeatures = 7;

struct Downloaded {
  std::vector<float> features;
  std::vector<int32_t> labels;
};

class BatchFeedTest : public testing::Test {
 protected:
  BatchFeedTest() {
    device_ = CudaDevice::Open(/*number=*/0).value();
    copy_in_ = CudaStream::Create(*device_, CudaStream::Blas::kNone).value();
    compute_ = CudaStream::Create(*device_, CudaStream::Blas::kNone).value();
    pool_ = PinnedPool::Create(*device_, BatchFeed::PinnedBytes(kFeatures, 10) + 4096).value();
    BatchFeed::Options options;
    options.device = device_.get();
    options.pool = pool_.get();
    options.feature_count = kFeatures;
    options.max_samples = 10;
    feed_ = BatchFeed::Create(options).value();
  }

  void Load(const std::vector<uint32_t>& samples) {
    ASSERT_TRUE(feed_->Gather(dataset_, samples).ok());
    ASSERT_TRUE(feed_->Copy(*copy_in_).ok());
  }

  // The next batch, copied back on the stream that computes.
  Downloaded UseNext() {
    const Batch batch = feed_->Use(*compute_).value();
    Downloaded downloaded = {std::vector<float>(batch.features.size()),
                             std::vector<int32_t>(batch.labels.size())};
    EXPECT_TRUE(compute_
                    ->CopyToHost(batch.features.data(), batch.features.size() * sizeof(float),
                                 downloaded.features.data())
                    .ok());
    EXPECT_TRUE(compute_
                    ->CopyToHost(batch.labels.data(), batch.labels.size() * sizeof(int32_t),
                                 downloaded.labels.data())
                    .ok());
    EXPECT_TRUE(feed_->Release(*compute_).ok());
    EXPECT_TRUE(compute_->Synchronize().ok());
    return downloaded;
  }

  void ExpectSamples(const Downloaded& batch, const std::vector<uint32_t>& samples) {
    std::vector<float> features;
    std::vector<int32_t> labels;
    for (const uint32_t sample : samples) {
      features.insert(features.end(), dataset_.Row(sample).begin(), dataset_.Row(sample).end());
      labels.push_back(dataset_.labels[sample]);
    }
    EXPECT_EQ(batch.features, features);
    EXPECT_EQ(batch.labels, labels);
  }

  const Dataset dataset_ = RandomDataset(/*samples=*/40, kFeatures, /*classes=*/3, /*seed=*/9);
  std::unique_ptr<CudaDevice> device_;
  std::shared_ptr<PinnedPool> pool_;
  std::unique_ptr<BatchFeed> feed_;
  std::unique_ptr<CudaStream> copy_in_;
  std::unique_ptr<CudaStream> compute_;
};

TEST_F(BatchFeedTest, BatchesComeInTheOrderOfLoadingOneAhead) {
  const std::vector<std::vector<uint32_t>> batches = {
      {3, 1, 2}, {39}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {12, 12}, {5, 4, 3}, {30, 31, 32, 33}};
  Load(batches[0]);
  for (size_t i = 0; i < batches.size(); ++i) {
    if (i + 1 < batches.size()) Load(batches[i + 1]);
    ExpectSamples(UseNext(), batches[i]);
  }
}

TEST_F(BatchFeedTest, TooLittlePinnedMemoryIsAnError) {
  BatchFeed::Options options;
  options.device = device_.get();
  options.pool = pool_.get();
  options.feature_count = kFeatures;
  options.max_samples = 10'000;
  EXPECT_TRUE(absl::IsResourceExhausted(BatchFeed::Create(options).status()));
}

}  // namespace
}  // namespace capstan
