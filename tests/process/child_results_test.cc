#include "tests/process/child_results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace capstan {
namespace {

using Children = std::vector<std::unique_ptr<ForkedProcess>>;
using Parent = ForkedProcess::Parent;

std::unique_ptr<ForkedProcess> Echo() {
  return StartChild([](Parent& parent) {
    parent.WriteLine("got " + parent.ReadLine());
    return absl::OkStatus();
  });
}

std::unique_ptr<ForkedProcess> NeverAnswers() {
  return StartChild([](Parent&) {
    pause();
    return absl::OkStatus();
  });
}

TEST(ChildResultsTest, AreInTheOrderOfTheChildren) {
  Children children;
  for (int i = 0; i < 2; ++i) children.push_back(Echo());
  children[1]->WriteLine("b");
  children[0]->WriteLine("a");
  const auto results = ChildResults(children);
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_THAT(*results, testing::ElementsAre("got a", "got b"));
}

TEST(ChildResultsTest, ErrorOfOneDoesNotWaitForTheOthers) {
  Children children;
  children.push_back(NeverAnswers());
  children.push_back(StartChild([](Parent&) { return absl::InternalError("out of luck"); }));
  EXPECT_EQ(ChildResults(children).status(), absl::InternalError("out of luck"));
}

TEST(ChildResultsTest, DeathOfOneIsAnError) {
  Children children;
  children.push_back(NeverAnswers());
  children.push_back(StartChild([](Parent&) -> absl::Status { _exit(1); }));
  EXPECT_EQ(ChildResults(children).status().message(), "a process died; see its log above");
}

}  // namespace
}  // namespace capstan
