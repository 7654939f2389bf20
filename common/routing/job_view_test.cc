#include "common/routing/job_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

void AddServer(v1::JobView& view, uint32_t server, uint64_t incarnation, const char* address,
               bool is_live = true) {
  v1::ServerInfo* info = view.add_servers();
  info->set_server(server);
  info->set_incarnation(incarnation);
  info->set_is_live(is_live);
  info->set_address(address);
}

TEST(RoutingTableTest, TakesPlacementAndServersFromTheView) {
  v1::JobView view;
  view.set_version(7);
  view.set_epoch(3);
  view.add_server_of_shard(1);
  view.add_server_of_shard(0);
  AddServer(view, 1, 11, "b:2", /*is_live=*/false);
  AddServer(view, 0, 10, "a:1");
  const RoutingTable table = RoutingTableFromView(view);
  EXPECT_EQ(table.epoch, Epoch(3));
  EXPECT_EQ(table.version, 7u);
  EXPECT_THAT(table.server_of_shard, ElementsAre(ServerId(1), ServerId(0)));
  EXPECT_THAT(table.servers,
              ElementsAre(RoutedServer{{"a:1"}, Incarnation(10), /*is_live=*/true},
                          RoutedServer{{"b:2"}, Incarnation(11), /*is_live=*/false}));
}

TEST(RoutingTableTest, IsEmptyBeforePlacement) {
  const RoutingTable table = RoutingTableFromView(v1::JobView());
  EXPECT_EQ(table.epoch, Epoch(0));
  EXPECT_THAT(table.server_of_shard, IsEmpty());
}

TEST(RoutingTableTest, IgnoresAServerIdOutOfRange) {
  v1::JobView view;
  AddServer(view, 4'000'000'000u, 10, "a:1");
  EXPECT_THAT(RoutingTableFromView(view).servers,
              ElementsAre(RoutedServer{{""}, Incarnation(), /*is_live=*/false}));
}

}  // namespace
}  // namespace capstan
