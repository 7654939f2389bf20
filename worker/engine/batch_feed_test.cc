#include "worker/engine/batch_feed.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "worker/engine/busy_work.h"
#include "worker/engine/training_rig.h"

namespace capstan {
namespace {

constexpr int kFeatures = 7;

// A batch on its way back, in pinned memory.
struct Downloaded {
  absl::Span<float> features;
  absl::Span<int32_t> labels;
};

class BatchFeedTest : public testing::Test {
 protected:
  BatchFeedTest() {
    device_ = CudaDevice::Open(/*number=*/0).value();
    copy_in_ = CudaStream::Create(*device_, CudaStream::Blas::kNone).value();
    compute_ = CudaStream::Create(*device_, CudaStream::Blas::kNone).value();
    pool_ = PinnedPool::Create(*device_, BatchFeed::PinnedBytes(kFeatures, 10) + 16384).value();
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

  template <typename T>
  absl::Span<T> CopyBack(absl::Span<const T> on_gpu) {
    const size_t bytes = on_gpu.size() * sizeof(T);
    T* const host = static_cast<T*>(pool_->Take(bytes).value());
    EXPECT_TRUE(compute_->CopyToHost(on_gpu.data(), bytes, host).ok());
    return {host, on_gpu.size()};
  }

  // Queues a copy of the next batch back to the host, and its release, on the computing stream.
  Downloaded UseNext() {
    const Batch batch = feed_->Use(*compute_).value();
    const Downloaded downloaded = {CopyBack<float>(batch.features),
                                   CopyBack<int32_t>(batch.labels)};
    EXPECT_TRUE(feed_->Release(*compute_).ok());
    return downloaded;
  }

  // Loads each batch one ahead. Queues work of `busy`, if given, before each use. Waits for the GPU
  // at the end alone, and then checks the used batches.
  void ExpectBatchesInOrder(CudaStream* busy) {
    const std::vector<std::vector<uint32_t>> batches = {
        {3, 1, 2}, {39}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {12, 12}, {5, 4, 3}, {30, 31, 32, 33}};
    std::vector<Downloaded> used;
    BusyWork work(*device_);
    for (size_t i = 0; i < batches.size(); ++i) {
      if (busy != nullptr) {
        ASSERT_TRUE(work.Queue(*busy).ok());
      }
      if (i == 0) Load(batches[0]);
      if (i + 1 < batches.size()) Load(batches[i + 1]);
      used.push_back(UseNext());
    }
    ASSERT_TRUE(copy_in_->Synchronize().ok());
    ASSERT_TRUE(compute_->Synchronize().ok());
    for (size_t i = 0; i < batches.size(); ++i) {
      SCOPED_TRACE(i);
      ExpectSamples(used[i], batches[i]);
    }
  }

  void ExpectSamples(const Downloaded& batch, const std::vector<uint32_t>& samples) {
    std::vector<float> features;
    std::vector<int32_t> labels;
    for (const uint32_t sample : samples) {
      features.insert(features.end(), dataset_.Row(sample).begin(), dataset_.Row(sample).end());
      labels.push_back(dataset_.labels[sample]);
    }
    EXPECT_EQ(batch.features, absl::MakeConstSpan(features));
    EXPECT_EQ(batch.labels, absl::MakeConstSpan(labels));
  }

  const Dataset dataset_ = RandomDataset(/*samples=*/40, kFeatures, /*classes=*/3, /*seed=*/9);
  std::unique_ptr<CudaDevice> device_;
  std::shared_ptr<PinnedPool> pool_;
  std::unique_ptr<BatchFeed> feed_;
  std::unique_ptr<CudaStream> copy_in_;
  std::unique_ptr<CudaStream> compute_;
};

TEST_F(BatchFeedTest, BatchesComeInTheOrderOfLoadingOneAhead) {
  ExpectBatchesInOrder(/*busy=*/nullptr);
}

TEST_F(BatchFeedTest, ABatchIsReplacedOnlyWhenWhatComputesHasUsedIt) {
  ExpectBatchesInOrder(compute_.get());
}

TEST_F(BatchFeedTest, ABatchIsUsedAndGatheredAnewOnlyWhenItIsCopied) {
  ExpectBatchesInOrder(copy_in_.get());
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
