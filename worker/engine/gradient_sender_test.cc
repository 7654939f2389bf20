#include "worker/engine/gradient_sender.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "common/base/real_clock.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/cuda/device_buffer.h"
#include "kernels/cuda/pinned_pool.h"
#include "worker/engine/busy_work.h"
#include "worker/engine/cpu_engine.h"
#include "worker/engine/training_rig.h"

namespace capstan {
namespace {

// A store of a CPU's engine, and a stream for the events of pushes.
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

TEST_F(GradientSenderTest, CancelWaitsForThePushThatIsUnderWayAndDropsTheOthers) {
  BusyWork work(*device_);
  auto copied = CudaEvent::Create(*device_, CudaEvent::Timing::kOff).value();
  auto held = CudaEvent::Create(*device_, CudaEvent::Timing::kOff).value();
  ASSERT_TRUE(copied.Record(*stream_).ok());
  ASSERT_TRUE(work.Queue(*stream_).ok());
  ASSERT_TRUE(held.Record(*stream_).ok());
  ParameterStore& store = rig_->store();
  const int64_t before = rig_->exchanges();
  std::vector<int> pushed;
  std::promise<void> begun;
  auto sender = std::make_unique<GradientSender>(&clock_, [&](int layer) {
    pushed.push_back(layer);
    if (layer == 1) begun.set_value();
    EXPECT_TRUE(held.Wait().ok());
  });
  for (const int layer : {1, 0}) {
    store.Open(layer);
    sender->Send(copied, layer, Step(0), store);
  }
  begun.get_future().wait();

  sender->Cancel();

  const int64_t sent = rig_->exchanges();
  EXPECT_GT(sent, before);
  sender.reset();  // also its thread has ended
  EXPECT_EQ(pushed, std::vector<int>{1});
  EXPECT_EQ(rig_->exchanges(), sent) << "something was pushed after Cancel";
  store.Fail(absl::CancelledError("the test ends"));
}

TEST_F(GradientSenderTest, AfterCancelTheStoreMayEndAlsoWhileGradientsAreCopied) {
  BusyWork work(*device_);
  auto copied = CudaEvent::Create(*device_, CudaEvent::Timing::kOff).value();
  for (const int layer : {1, 0}) rig_->store().Open(layer);
  ASSERT_TRUE(work.Queue(*stream_).ok());
  ASSERT_TRUE(copied.Record(*stream_).ok());
  auto sender = std::make_unique<GradientSender>(&clock_, [](int) {});
  sender->Send(copied, /*layer=*/1, Step(0), rig_->store());
  sender->Send(copied, /*layer=*/0, Step(0), rig_->store());

  std::thread([&] { sender->Cancel(); }).join();

  const int64_t sent = rig_->exchanges();
  rig_->store().Fail(absl::CancelledError("the test ends"));
  ASSERT_TRUE(copied.Wait().ok());
  sender.reset();
  EXPECT_EQ(rig_->exchanges(), sent) << "something was pushed after Cancel";
}

}  // namespace
}  // namespace capstan
