#include "worker/engine/gradient_sender.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "common/base/real_clock.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/device_buffer.h"
#include "kernels/cuda/pinned_pool.h"
#include "worker/engine/make_cpu_engine.h"
#include "worker/engine/training_rig.h"

namespace capstan {
namespace {

// A store of a CPU's engine, and a stream whose events say when to push.
class GradientSenderTest : public testing::Test {
 protected:
  GradientSenderTest() {
    EngineOptions options;
    options.model.add_hidden(6);
    options.feature_count = 4;
    options.class_count = 3;
    options.max_samples = 1;
    options.clock = &clock_;
    engine_ = MakeCpuEngine(options).value();
    TrainingRig::Options rig;
    rig.learning_rate = 1;
    rig_ = TrainingRig::Create(engine_.get(), &clock_, rig).value();
    EXPECT_TRUE(rig_->store().WaitForAll().ok());
    device_ = CudaDevice::Open(/*number=*/0).value();
    stream_ = CudaStream::Create(*device_, CudaStream::Blas::kNone).value();
  }

  RealClock clock_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<TrainingRig> rig_;
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<CudaStream> stream_;
};

TEST_F(GradientSenderTest, PushesWhatWasCopiedBeforeTheEvent) {
  ParameterStore& store = rig_->store();
  const float before = store.values()[0][5];
  auto pool = PinnedPool::Create(*device_, 256).value();
  float* const source = static_cast<float*>(pool->Take(sizeof(float)).value());
  *source = 0.25f;
  auto memory = DeviceBuffer::Allocate(*device_, sizeof(float), "a gradient").value();
  auto copied = CudaEvent::Create(*device_, CudaEvent::Timing::kOff).value();
  std::vector<int> pushed;
  GradientSender sender(&clock_, [&pushed](int layer) { pushed.push_back(layer); });

  ASSERT_TRUE(stream_->CopyToDevice(source, sizeof(float), memory.data<float>()).ok());
  ASSERT_TRUE(
      stream_->CopyToHost(memory.data<float>(), sizeof(float), &store.gradients()[0][5]).ok());
  ASSERT_TRUE(copied.Record(*stream_).ok());
  store.Open(/*layer=*/0);
  sender.Send(copied, /*layer=*/0, Step(0), store);

  ASSERT_TRUE(store.WaitForLayer(0).ok());
  EXPECT_EQ(store.values()[0][5], before - 0.25f);
  EXPECT_EQ(pushed, std::vector<int>{0});
}

TEST_F(GradientSenderTest, AfterCancelTheStoreMayEnd) {
  auto copied = CudaEvent::Create(*device_, CudaEvent::Timing::kOff).value();
  ASSERT_TRUE(copied.Record(*stream_).ok());
  GradientSender sender(&clock_, [](int) {});
  for (int step = 0; step < 200; ++step) {
    rig_->store().Open(/*layer=*/1);
    sender.Send(copied, /*layer=*/1, Step(step), rig_->store());
  }
  sender.Cancel();
  const int64_t sent = rig_->exchanges();
  rig_->store().Fail(absl::CancelledError("the test ends"));
  EXPECT_EQ(rig_->exchanges(), sent) << "something was pushed after Cancel";
  rig_.reset();
}

}  // namespace
}  // namespace capstan
