#include "server/checkpoint/write_dense_slice.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "server/checkpoint/example_checkpoint.h"

namespace capstan {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kToken = 9;

Payload FloatsOf(std::vector<float> floats) {
  const auto owner = std::make_shared<const std::vector<float>>(std::move(floats));
  return Payload(absl::MakeConstSpan(*owner), owner);
}

SliceSnapshot SliceOf(uint32_t slice, float value, uint64_t steps) {
  SliceSnapshot snapshot;
  snapshot.key = {TableId(0), SliceIndex(slice)};
  snapshot.values = FloatsOf({value, value});
  snapshot.optimizer_state = {FloatsOf({10 * value, 10 * value})};
  snapshot.optimizer_steps = steps;
  return snapshot;
}

class WriteDenseSliceTest : public testing::Test {
 protected:
  // The file is complete with the object.
  WriteDenseSliceTest() {
    ModelOutput::Tables tables, state;
    for (const std::string name : {"w", "optimizer.w.sum"}) {
      v1::TableSpec& table = name == "w" ? *tables.Add() : *state.Add();
      table.set_name(name);
      table.add_shape(4);
    }
    state.Add()->set_name("optimizer.w.step");
    EXPECT_TRUE(output_->Begin(tables, {}, state).ok());
    model_ = ModelTables::Read(OpenFile::Open(UnfinishedModelPath(path_), O_RDWR).value()).value();
  }
  std::vector<float> Read(const std::string& tensor, size_t count) {
    std::vector<float> values(count);
    EXPECT_TRUE(model_->ReadValues(tensor, 0, absl::MakeSpan(values)).ok());
    return values;
  }
  void Write(const StateTensors& state) {
    // In any order.
    EXPECT_TRUE(WriteDenseSlice(SliceOf(1, 2, /*steps=*/8), "w", 2, state, *model_).ok());
    EXPECT_TRUE(WriteDenseSlice(SliceOf(0, 1, /*steps=*/7), "w", 0, state, *model_).ok());
  }

  const std::string path_ = NewFolder() + "/m.safetensors";
  const std::unique_ptr<ModelOutput> output_ = CreateModelFile(path_, kToken).value();
  std::unique_ptr<ModelTables> model_;
};

TEST_F(WriteDenseSliceTest, TheStateLiesLikeTheValuesAndTheFirstSliceCounts) {
  Write({{"optimizer.w.sum"}, "optimizer.w.step"});
  EXPECT_THAT(Read("w", 4), ElementsAre(1, 1, 2, 2));
  EXPECT_THAT(Read("optimizer.w.sum", 4), ElementsAre(10, 10, 20, 20));
  EXPECT_THAT(Read("optimizer.w.step", 1), ElementsAre(7));
}

TEST_F(WriteDenseSliceTest, AStateThatIsNotWantedIsLeftOut) {
  Write({});
  EXPECT_THAT(Read("w", 4), ElementsAre(1, 1, 2, 2));
  EXPECT_THAT(Read("optimizer.w.sum", 4), ElementsAre(0, 0, 0, 0));
}

}  // namespace
}  // namespace capstan
