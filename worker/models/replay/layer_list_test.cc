#include "worker/models/replay/layer_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/string_view.h"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::string_view kHeader = "layer,tensor,elements,million_macs\n";

struct Network {
  std::string name;
  size_t tensors;
  uint64_t elements;
  double million_macs;
};

TEST(LayerListTest, BuiltInNetworksHaveTheirPublishedSizes) {
  // Published numbers of parameters: torchvision's VGG16 and ResNet-50, BERT without heads.
  // Multiply-accumulates of a sample of 224 x 224 pixels: 15.47 G and 4.1 G.
  const Network networks[] = {{"vgg16", 32, 138'357'544, 15'470},
                              {"resnet50", 161, 25'557'032, 4'100},
                              {"bert_base", 199, 109'482'240, 0},
                              {"bert_large", 391, 335'141'888, 0}};
  for (const Network& network : networks) {
    const auto tensors = LoadLayerList(network.name);
    ASSERT_TRUE(tensors.ok()) << tensors.status();
    EXPECT_EQ(tensors->size(), network.tensors) << network.name;
    uint64_t elements = 0;
    double million_macs = 0;
    for (const LayerTensor& tensor : *tensors) {
      elements += tensor.elements;
      million_macs += tensor.million_macs;
    }
    EXPECT_EQ(elements, network.elements) << network.name;
    if (network.million_macs > 0) {
      EXPECT_NEAR(million_macs, network.million_macs, network.million_macs * 0.02) << network.name;
    }
  }
}

TEST(LayerListTest, ReadsTensorsOfLayers) {
  const auto tensors =
      ParseLayerList(std::string(kHeader) + "0,a.w,12,1.5\n0,a.b,3,0\n1,b.w,4,0.5\n", "test");
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 3u);
  EXPECT_EQ((*tensors)[1].layer, 0);
  EXPECT_EQ((*tensors)[1].name, "a.b");
  EXPECT_EQ((*tensors)[2].layer, 1);
  EXPECT_EQ((*tensors)[2].elements, 4u);
  EXPECT_EQ((*tensors)[0].million_macs, 1.5);
}

TEST(LayerListTest, SaysWhatIsWrongAndWhere) {
  struct Case {
    std::string lines;
    std::string message;
  };
  const Case cases[] = {
      {"0,a,12\n", "expected 4 fields"},
      {"x,a,12,1\n", "the number of a layer"},
      {"1,a,12,1\n", "expected layer 0"},
      {"0,a,12,1\n2,b,12,1\n", "line 3: expected layer 1 or the one before"},
      {"0,a,12,1\n1,b,12,1\n0,c,1,1\n", "line 4: expected layer 2"},
      {"0, ,12,1\n", "the name of a tensor"},
      {"0,a,12,1\n0,a,12,1\n", "no other tensor"},
      {"0,a,0,1\n", "elements from 1"},
      {"0,a,1099511627776,1\n", "below 2^40"},
      {"0,a,-3,1\n", "elements"},
      {"0,a,12,-1\n", "multiply-accumulates, 0 or more"},
      {"0,a,12,nan\n", "multiply-accumulates, 0 or more"},
      {"0,a,12,0\n", "at least one layer with multiply-accumulates"},
      {"", "at least one layer"},
  };
  for (const Case& test : cases) {
    const auto tensors = ParseLayerList(std::string(kHeader) + test.lines, "net.csv");
    EXPECT_EQ(tensors.status().code(), absl::StatusCode::kInvalidArgument) << test.lines;
    EXPECT_THAT(std::string(tensors.status().message()),
                AllOf(HasSubstr("net.csv"), HasSubstr(test.message)));
  }
  EXPECT_THAT(std::string(ParseLayerList("a,b\n", "net.csv").status().message()),
              HasSubstr("the header layer,tensor,elements,million_macs"));
}

TEST(LayerListTest, AFileThatIsNotThereIsNamed) {
  EXPECT_THAT(std::string(LoadLayerList("/no/such.csv").status().message()),
              AllOf(HasSubstr("/no/such.csv"), HasSubstr("vgg16")));
}

TEST(LayerListTest, AFolderIsRefused) {
  const absl::Status status = LoadLayerList(::testing::TempDir()).status();
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("model.replay.layers: expected vgg16"), HasSubstr("it is a folder")));
}

TEST(LayerListTest, AnEndlessDeviceIsRefused) {
  EXPECT_THAT(std::string(LoadLayerList("/dev/zero").status().message()),
              HasSubstr("it is a device"));
}

}  // namespace
}  // namespace capstan
