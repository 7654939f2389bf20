// ParameterClient with many threads at once, while servers die and return.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/base/random.h"
#include "common/base/real_clock.h"
#include "common/routing/routing_table.h"
#include "worker/client/parameter_client.h"

namespace capstan {
namespace {

constexpr int kThreads = 3, kOfEach = 1000, kOpenOfEach = 8;
constexpr uint32_t kServers = 3;

// The exchanges that are open at all servers. Thread-safe.
class Network {
 public:
  Network() : places_(kThreads * kOfEach) {}

  void Add(const void* connection, size_t exchange, ParameterEndpoint::ReplyCallback done) {
    EXPECT_EQ(places_[exchange].fetch_add(1), 0) << "exchange " << exchange << " is open twice";
    MutexLock lock(&mu_);
    open_.emplace(++last_, Open{connection, exchange, std::move(done)});
  }

  // Answers the oldest exchange. False: none is open.
  bool AnswerOne(const absl::Status& status) {
    std::map<uint64_t, Open>::node_type answered;
    {
      MutexLock lock(&mu_);
      if (open_.empty()) return false;
      answered = open_.extract(open_.begin());
      ++answering_[answered.mapped().connection];
    }
    Answer(answered.mapped(), status);
    MutexLock lock(&mu_);
    --answering_[answered.mapped().connection];
    answered_.NotifyAll();
    return true;
  }

  // Answers all that is open at the connection, and waits for other answers of it.
  void End(const void* connection, Clock& clock) {
    std::vector<Open> ended;
    {
      MutexLock lock(&mu_);
      for (auto it = open_.begin(); it != open_.end();) {
        const bool is_of_it = it->second.connection == connection;
        if (is_of_it) ended.push_back(std::move(it->second));
        it = is_of_it ? open_.erase(it) : std::next(it);
      }
    }
    for (Open& open : ended) Answer(open, absl::UnavailableError("the connection has ended"));
    MutexLock lock(&mu_);
    while (answering_[connection] > 0) {
      clock.WaitUntil(mu_, answered_, absl::InfiniteFuture());
    }
    answering_.erase(connection);
  }

 private:
  struct Open {
    const void* connection = nullptr;
    size_t exchange = 0;
    ParameterEndpoint::ReplyCallback done;
  };

  void Answer(Open& open, const absl::Status& status) {
    --places_[open.exchange];
    open.done(ErrorReply(status));
  }

  std::vector<std::atomic<int>> places_;  // by exchange: the number of connections where it is open
  Mutex mu_;
  CondVar answered_;
  uint64_t last_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uint64_t, Open> open_ ABSL_GUARDED_BY(mu_);
  std::map<const void*, int> answering_ ABSL_GUARDED_BY(mu_);  // by connection
};

class NetworkConnection : public ParameterEndpoint {
 public:
  NetworkConnection(Network* network, Clock* clock) : network_(*network), clock_(*clock) {}
  ~NetworkConnection() override {
    // Not synchronized: nobody is in Exchange now.
    is_ended_ = true;
    network_.End(this, clock_);
  }
  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    EXPECT_FALSE(is_ended_);
    delivered();
    network_.Add(this, static_cast<size_t>(request.sender.incarnation.value()), std::move(done));
    EXPECT_FALSE(is_ended_);
  }

 private:
  Network& network_;
  Clock& clock_;
  bool is_ended_ = false;
};

// One server is dead. The next one has its shard, unless nobody has.
RoutingTable Without(uint32_t dead, uint64_t epoch, const std::vector<uint64_t>& incarnations,
                     bool has_copy) {
  RoutingTable routing;
  routing.epoch = Epoch(epoch);
  for (uint32_t i = 0; i < kServers; ++i) {
    routing.server_of_shard.emplace_back(i == dead && has_copy ? (i + 1) % kServers : i);
    routing.servers.push_back({{"host:1"}, Incarnation(incarnations[i]), /*is_live=*/i != dead});
  }
  return routing;
}

TEST(ParameterClientThreadsTest, EachExchangeIsAnsweredOnceAndIsOpenAtOneServerAtATime) {
  RealClock clock;
  Network network;
  ParameterClient::Options options;
  options.clock = &clock;
  options.first_backoff = absl::Milliseconds(1);
  options.last_backoff = absl::Milliseconds(4);
  std::vector<uint64_t> incarnations(kServers, 1);
  std::atomic<int> connecting = 0;
  auto client = std::make_unique<ParameterClient>(
      options, ShardMap({kServers}, /*slice_bytes=*/sizeof(float), /*shard_count=*/kServers),
      Without(/*dead=*/kServers, /*epoch=*/1, incarnations, /*has_copy=*/true),
      [&](ServerId, const ServerAddress&) {
        EXPECT_EQ(++connecting, 1);
        SleepUntil(clock, clock.Now() + absl::Microseconds(100));
        auto connection = std::make_unique<NetworkConnection>(&network, &clock);
        --connecting;
        return connection;
      });
  std::vector<std::atomic<int>> answers(kThreads * kOfEach);
  std::atomic<int> answered = 0;
  std::vector<std::thread> senders;
  for (int thread = 0; thread < kThreads; ++thread) {
    senders.emplace_back([&, thread] {
      Random random(/*seed=*/1 + thread);
      std::atomic<int> open = 0;
      for (int i = 0; i < kOfEach; ++i) {
        while (open >= kOpenOfEach) std::this_thread::yield();
        ++open;
        const auto exchange = static_cast<size_t>(thread * kOfEach + i);
        ExchangeRequest request;
        request.sender.incarnation = Incarnation(exchange);
        request.slice.slice = SliceIndex(static_cast<uint32_t>(random.UniformInt(kServers)));
        client->Exchange(
            std::move(request), [] {},
            [&, exchange](const ExchangeReply& reply) {
              EXPECT_TRUE(reply.status.ok()) << reply.status;
              ++answers[exchange];
              ++answered;
              --open;
            });
      }
      while (open > 0) std::this_thread::yield();
    });
  }
  std::atomic<bool> is_over = false;
  std::vector<std::thread> others;
  others.emplace_back([&] {  // the servers
    for (int i = 0; !is_over; ++i) {
      const bool is_lost = i % 5 == 0;
      if (!network.AnswerOne(is_lost ? absl::UnavailableError("lost") : absl::OkStatus())) {
        std::this_thread::yield();
      }
    }
  });
  std::atomic<uint64_t> epoch = 1;
  for (int thread = 0; thread < 2; ++thread) {
    others.emplace_back([&, thread] {  // views come on two threads
      Random random(/*seed=*/10 + thread);
      std::vector<uint64_t> processes = incarnations;
      while (!is_over) {
        const auto dead = static_cast<uint32_t>(random.UniformInt(kServers + 1));
        if (dead < kServers) ++processes[dead];
        client->UpdateRouting(Without(dead, ++epoch, processes, random.Bernoulli(0.7)));
        SleepUntil(clock, clock.Now() + absl::Microseconds(300));
      }
    });
  }
  for (std::thread& thread : senders) thread.join();
  is_over = true;
  for (std::thread& thread : others) thread.join();
  EXPECT_EQ(answered, kThreads * kOfEach);
  for (const auto& count : answers) EXPECT_EQ(count, 1);
  EXPECT_GT(client->retries(), 0);
  client = nullptr;
}

TEST(ParameterClientThreadsTest, DestructionWaitsForAConnectionThatIsBeingEnded) {
  // Takes until it is told to end.
  class SlowConnection : public ParameterEndpoint {
   public:
    SlowConnection(std::atomic<bool>* is_ending, const std::atomic<bool>* may_end)
        : is_ending_(*is_ending), may_end_(*may_end) {}
    ~SlowConnection() override {
      is_ending_ = true;
      while (!may_end_) std::this_thread::yield();
      if (open_) open_(ErrorReply(absl::UnavailableError("the connection has ended")));
    }
    void Exchange(ExchangeRequest&&, DeliveredCallback delivered, ReplyCallback done) override {
      delivered();
      open_ = std::move(done);
    }

   private:
    std::atomic<bool>& is_ending_;
    const std::atomic<bool>& may_end_;
    ReplyCallback open_;
  };
  RealClock clock;
  std::atomic<bool> is_ending = false, may_end = false;
  ParameterClient::Options options;
  options.clock = &clock;
  auto client = std::make_unique<ParameterClient>(
      options, ShardMap({kServers}, /*slice_bytes=*/sizeof(float), /*shard_count=*/kServers),
      Without(/*dead=*/kServers, 1, {1, 1, 1}, /*has_copy=*/true),
      [&](ServerId, const ServerAddress&) {
        return std::make_unique<SlowConnection>(&is_ending, &may_end);
      });
  std::vector<absl::Status> replies;
  client->Exchange(
      {}, [] {}, [&](const ExchangeReply& reply) { replies.push_back(reply.status); });
  client->UpdateRouting(Without(/*dead=*/0, 2, {1, 1, 1}, /*has_copy=*/true));
  while (!is_ending) std::this_thread::yield();
  std::thread ender([&] {
    SleepUntil(clock, clock.Now() + absl::Milliseconds(20));
    may_end = true;
  });
  client = nullptr;
  ender.join();
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_TRUE(absl::IsCancelled(replies[0])) << replies[0];
}

}  // namespace
}  // namespace capstan
