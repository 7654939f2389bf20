#include "common/transport/striped_endpoint.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace capstan {
namespace {

// Notes which slices it is asked for.
class NotingEndpoint : public ParameterEndpoint {
 public:
  explicit NotingEndpoint(std::vector<SliceKey>* asked) : asked_(*asked) {}
  void Exchange(ExchangeRequest request, SentCallback sent, ReplyCallback done) override {
    asked_.push_back(request.slice);
    sent();
    done(ExchangeReply());
  }

 private:
  std::vector<SliceKey>& asked_;
};

// What each of 4 connections is asked for, when every slice of `num_tables` x `num_slices`, or each
// `stride`-th of a table, is asked for twice.
std::vector<std::vector<SliceKey>> Asked(uint32_t num_tables, uint32_t num_slices,
                                         uint32_t stride = 1) {
  std::vector<std::vector<SliceKey>> asked(4);
  std::vector<std::unique_ptr<ParameterEndpoint>> connections;
  for (auto& of_one : asked) connections.push_back(std::make_unique<NotingEndpoint>(&of_one));
  StripedEndpoint endpoint(std::move(connections));
  int answers = 0;
  for (int round = 0; round < 2; ++round) {
    for (uint32_t table = 0; table < num_tables; ++table) {
      for (uint32_t slice = 0; slice < num_slices; ++slice) {
        ExchangeRequest request;
        request.slice = {TableId(table), SliceIndex(slice * stride)};
        endpoint.Exchange(
            std::move(request), [] {}, [&answers](const ExchangeReply&) { ++answers; });
      }
    }
  }
  EXPECT_EQ(answers, 2 * num_tables * num_slices);
  return asked;
}

TEST(StripedEndpointTest, ASliceAlwaysTakesTheSameConnection) {
  std::map<SliceKey, std::set<int>> connections_of;
  const auto asked = Asked(/*num_tables=*/3, /*num_slices=*/5);
  for (int i = 0; i < 4; ++i) {
    for (const SliceKey& key : asked[i]) connections_of[key].insert(i);
  }
  EXPECT_EQ(connections_of.size(), 15u);
  for (const auto& [key, connections] : connections_of) EXPECT_EQ(connections.size(), 1u);
}

TEST(StripedEndpointTest, SlicesSpreadEvenlyOverTheConnections) {
  for (const auto& [tables, slices] : {std::pair(1u, 40u), std::pair(40u, 1u)}) {
    for (const auto& of_one : Asked(tables, slices)) EXPECT_EQ(of_one.size(), 20u);
    // Of servers that hold every other slice, and every fourth.
    for (const auto& of_one : Asked(tables, slices, /*stride=*/2)) EXPECT_EQ(of_one.size(), 20u);
    for (const auto& of_one : Asked(tables, slices, /*stride=*/4)) EXPECT_EQ(of_one.size(), 20u);
  }
}

}  // namespace
}  // namespace capstan
