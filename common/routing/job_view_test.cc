#include "common/routing/job_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

void AddServer(v1::JobView& view, uint32_t server, const char* address) {
  v1::ServerInfo* info = view.add_servers();
  info->set_server(server);
  info->set_address(address);
}

TEST(RoutingTableTest, TakesPlacementAndAddressesFromTheView) {
  v1::JobView view;
  view.set_epoch(3);
  view.add_server_of_shard(1);
  view.add_server_of_shard(0);
  AddServer(view, 1, "b:2");
  AddServer(view, 0, "a:1");
  const RoutingTable table = RoutingTableFromView(view);
  EXPECT_EQ(table.epoch, Epoch(3));
  EXPECT_THAT(table.server_of_shard, ElementsAre(ServerId(1), ServerId(0)));
  EXPECT_THAT(table.server_address, ElementsAre(ServerAddress{"a:1"}, ServerAddress{"b:2"}));
}

TEST(RoutingTableTest, IsEmptyBeforePlacement) {
  const RoutingTable table = RoutingTableFromView(v1::JobView());
  EXPECT_EQ(table.epoch, Epoch(0));
  EXPECT_THAT(table.server_of_shard, IsEmpty());
}

TEST(RoutingTableTest, IgnoresAServerIdOutOfRange) {
  v1::JobView view;
  AddServer(view, 4'000'000'000u, "a:1");
  EXPECT_THAT(RoutingTableFromView(view).server_address, ElementsAre(ServerAddress{""}));
}

}  // namespace
}  // namespace capstan
