#include "tests/benchmark/step/step_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace capstan {
namespace {

using testing::HasSubstr;

std::vector<StepLine> Lines() {
  return {
      {kCapstanGrpc, {{"step_ms", 90}, {"gb_per_s", 1}, {"server_cpu_ms", 7}}},
      {kCapstanUcxTcp, {{"step_ms", 60}}},
      {kGlooRing, {{"step_ms", 30}}},
      {kMpiTcp, {{"step_ms", 120}}},
      {kCapstanUcx, {{"step_ms", 10}}},
      {kMpiSharedMemory, {{"step_ms", 40}}},
  };
}

TEST(StepComparisonTest, RatiosAreWithinOneTransport) {
  EXPECT_EQ(RatiosOf(Lines()).dump(),
            R"({"ratio_to_gloo":2.0,"ratio_to_mpi_tcp":0.5,"grpc_ratio_to_gloo":3.0,)"
            R"("ratio_to_mpi_shared_memory":0.25})");
}

TEST(StepComparisonTest, ARatioNeedsBothLines) {
  EXPECT_EQ(RatiosOf({Lines()[0], Lines()[2], Lines()[4]}).dump(), R"({"grpc_ratio_to_gloo":3.0})");
  EXPECT_EQ(RatiosOf({Lines()[4]}).dump(), "{}");
}

TEST(StepComparisonTest, MediansAreOfEachLineByItself) {
  std::vector<std::vector<StepLine>> runs(3, {Lines()[1], Lines()[2]});
  runs[0][0].figures["step_ms"] = 50;
  runs[1][0].figures["step_ms"] = 70;
  runs[1][1].figures["step_ms"] = 20;
  runs[2][1].figures["step_ms"] = 10;
  EXPECT_EQ(LinesAsJson(MedianLines(runs)).dump(),
            R"([{"transport":"tcp","program":"capstan_ucx","step_ms":60.0},)"
            R"({"transport":"tcp","program":"gloo_ring","step_ms":20.0}])");
}

TEST(StepComparisonTest, TableNamesTheTransportOfEachLine) {
  const std::string table = LinesAsTable(Lines());
  EXPECT_THAT(table, HasSubstr("\ntcp            capstan_grpc                  90             1"));
  EXPECT_THAT(table, HasSubstr("\nshared_memory  mpi                           40\n"));
}

}  // namespace
}  // namespace capstan
