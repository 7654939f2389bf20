#include "worker/engine/layer_trace.h"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/time/time.h"
#include "common/base/fake_clock.h"

namespace capstan {
namespace {

TEST(LayerTraceTest, OnePartEndsWhereTheNextBegins) {
  FakeClock clock;
  Tracer::Options options;
  options.path = testing::TempDir() + "layer_trace";
  options.clock = &clock;
  const std::unique_ptr<Tracer> tracer = Tracer::Create(options).value();
  LayerTrace trace(tracer.get(), {"fc1", "fc2"});
  trace.Begin("wait", 1);
  clock.Advance(absl::Microseconds(3));
  trace.Begin("forward", 1);
  clock.Advance(absl::Microseconds(4));
  trace.End();
  clock.Advance(absl::Microseconds(5));
  trace.End();
  ASSERT_TRUE(tracer->Finish().ok());
  std::string text;
  std::ifstream file(options.path);
  for (const nlohmann::json& event : nlohmann::json::parse(file)) {
    if (event["ph"] == "X") {
      text += event["name"].dump() + event["args"].dump() + event["ts"].dump() + "+" +
              event["dur"].dump() + "\n";
    }
  }
  EXPECT_EQ(text,
            "\"wait fc2\"{\"layer\":1}0.0+3.0\n"
            "\"forward fc2\"{\"layer\":1}3.0+4.0\n");
}

}  // namespace
}  // namespace capstan
