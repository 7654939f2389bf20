#include "worker/client/connect_to_servers.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "common/base/real_clock.h"

namespace capstan {
namespace {

// Answers each exchange with one status, and counts them.
class FixedEndpoint : public ParameterEndpoint {
 public:
  FixedEndpoint(absl::Status status, int* calls) : status_(std::move(status)), calls_(calls) {}
  void Exchange(ExchangeRequest&& /*request*/, DeliveredCallback delivered,
                ReplyCallback done) override {
    ++*calls_;
    delivered();
    done(ErrorReply(status_));
  }

 private:
  const absl::Status status_;
  int* const calls_;
};

// A connection over both transports. Counts the uses of each.
struct TwoTransports {
  explicit TwoTransports(const absl::Status& of_ucx) {
    std::vector<std::unique_ptr<ParameterEndpoint>> grpc;
    grpc.push_back(std::make_unique<FixedEndpoint>(absl::OkStatus(), &grpc_calls));
    connection = std::make_unique<ServerConnection>(
        nullptr, std::make_unique<FixedEndpoint>(of_ucx, &ucx_calls), std::move(grpc), used);
  }

  absl::Status Exchange() {
    absl::Status status;
    connection->Exchange(
        ExchangeRequest(), [] {}, [&status](ExchangeReply reply) { status = reply.status; });
    return status;
  }

  int ucx_calls = 0;
  int grpc_calls = 0;
  const std::shared_ptr<TransportsUsed> used = std::make_shared<TransportsUsed>();
  std::unique_ptr<ServerConnection> connection;
};

TEST(ServerConnectionTest, ExchangesGoOverUcxWhereItConnects) {
  for (const absl::Status& status :
       {absl::OkStatus(), absl::UnavailableError("the server ended")}) {
    TwoTransports transports(status);
    EXPECT_EQ(transports.Exchange(), status);
    EXPECT_EQ(transports.Exchange(), status);
    EXPECT_EQ(transports.ucx_calls, 2);
    EXPECT_EQ(transports.grpc_calls, 0);
    EXPECT_EQ(transports.used->Text(), "ucx");
  }
}

TEST(ServerConnectionTest, WhatUcxCannotConnectIsSentAgainOverGrpc) {
  TwoTransports transports(absl::UnimplementedError("UCX does not get there"));
  EXPECT_EQ(transports.Exchange(), absl::UnavailableError("UCX does not get there"));
  EXPECT_EQ(transports.Exchange(), absl::OkStatus());
  EXPECT_EQ(transports.ucx_calls, 1);
  EXPECT_EQ(transports.grpc_calls, 1);
  EXPECT_EQ(transports.used->Text(), "grpc");
}

TEST(ServerConnectionTest, WithoutGrpcTheErrorOfUcxIsPassedOn) {
  int calls = 0;
  const absl::Status error = absl::UnimplementedError("UCX does not get there");
  ServerConnection connection(nullptr, std::make_unique<FixedEndpoint>(error, &calls), {},
                              std::make_shared<TransportsUsed>());
  absl::Status status;
  connection.Exchange(
      ExchangeRequest(), [] {}, [&status](ExchangeReply reply) { status = reply.status; });
  EXPECT_EQ(status, error);
}

// Answers nothing before its end.
class SilentEndpoint : public ParameterEndpoint {
 public:
  ~SilentEndpoint() override {
    for (auto& done : open_) done(ErrorReply(absl::UnavailableError("the connection has ended")));
  }
  void Exchange(ExchangeRequest&& /*request*/, DeliveredCallback delivered,
                ReplyCallback done) override {
    delivered();
    open_.push_back(std::move(done));
  }

 private:
  std::vector<ReplyCallback> open_;
};

TEST(ServerConnectionTest, TheEndAnswersOpenExchangesOnEachTransport) {
  for (const bool has_ucx : {false, true}) {
    std::vector<std::unique_ptr<ParameterEndpoint>> grpc;
    for (int i = 0; i < 2; ++i) grpc.push_back(std::make_unique<SilentEndpoint>());
    std::unique_ptr<ParameterEndpoint> ucx;
    if (has_ucx) ucx = std::make_unique<SilentEndpoint>();
    auto connection = std::make_unique<ServerConnection>(nullptr, std::move(ucx), std::move(grpc),
                                                         std::make_shared<TransportsUsed>());
    std::vector<absl::Status> replies;
    for (uint32_t slice = 0; slice < 4; ++slice) {
      ExchangeRequest request;
      request.slice.slice = SliceIndex(slice);
      connection->Exchange(
          std::move(request), [] {},
          [&replies](const ExchangeReply& reply) { replies.push_back(reply.status); });
    }
    connection = nullptr;
    ASSERT_EQ(replies.size(), 4u);
    for (const absl::Status& status : replies) EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  }
}

// Nobody sends again, so the reason is told at once.
TEST(ConnectToServersTest, AUcxThatDoesNotStartIsNotTriedAgain) {
  RealClock clock;
  ConnectOptions options;
  options.clock = &clock;
  options.transport.set_type(v1::TransportSpec::UCX);
  options.transport.set_ucx_transports("knem");  // a kernel module that is not there
  options.member.security = NoSecurity();
  options.used = std::make_shared<TransportsUsed>();
  const std::unique_ptr<ParameterEndpoint> server = ConnectToServers(options)("127.0.0.1:1");
  absl::Status status;
  server->Exchange(
      ExchangeRequest(), [] {}, [&status](ExchangeReply reply) { status = reply.status; });
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
}

TEST(TransportsUsedTest, NamesThoseThatWereUsed) {
  TransportsUsed used;
  EXPECT_EQ(used.Text(), "");
  used.NoteGrpc();
  EXPECT_EQ(used.Text(), "grpc");
  used.NoteUcx();
  EXPECT_EQ(used.Text(), "ucx and grpc");
}

// How many of the slices 0, stride, 2 * stride, ... of each table go over each of 4 connections.
std::vector<int> SlicesOf4Connections(uint32_t tables, uint32_t slices, uint32_t stride) {
  std::vector<int> counts(4);
  for (uint32_t table = 0; table < tables; ++table) {
    for (uint32_t slice = 0; slice < slices; ++slice) {
      ++counts.at(ConnectionOf({TableId(table), SliceIndex(slice * stride)}, 4));
    }
  }
  return counts;
}

TEST(ConnectionOfTest, SlicesSpreadEvenlyOverTheConnections) {
  for (const auto& [tables, slices] : {std::pair(1u, 40u), std::pair(40u, 1u), std::pair(8u, 5u)}) {
    // A server may hold every slice, or every second, third or fourth.
    for (uint32_t stride = 1; stride <= 4; ++stride) {
      for (const int count : SlicesOf4Connections(tables, slices, stride)) {
        EXPECT_NEAR(count, 10, 2) << tables << " tables, " << slices << " slices, stride "
                                  << stride;
      }
    }
  }
}

}  // namespace
}  // namespace capstan
