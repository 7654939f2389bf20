#include "server/service/copy_reports.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "common/base/fake_clock.h"
#include "server/shard/one_table_host.h"

namespace capstan {
namespace {

// Keeps what is sent, and is answered by the test.
class KeepingLink : public ReplicaLink {
 public:
  void Send(ReplicaRecord record, ParameterEndpoint::ReplyCallback done) override {
    sent.emplace_back(record.sequence, std::move(done));
  }
  void RunAfter(absl::Duration /*delay*/, absl::AnyInvocable<void()> /*call*/) override {}

  void AnswerAll() {
    for (auto& [sequence, done] : std::exchange(sent, {})) {
      ExchangeReply reply;
      reply.version = sequence;
      done(reply);
    }
  }

  std::vector<std::pair<uint64_t, ParameterEndpoint::ReplyCallback>> sent;
};

TEST(CopyReportsTest, ACopyThatAcknowledgesNothingForAWhileIsNamed) {
  FakeClock clock;
  KeepingLink link;
  const auto host = MakeHost(ConsistencyMode::kAsync, 0, /*num_workers=*/1);
  CopyReports reports;
  const auto silent = [&] {
    v1::CopyReport report;
    reports.Write(*host, clock.Now(), &report);
    double seconds = 0;
    for (const v1::SilentCopy& copy : report.silent()) {
      seconds = copy.seconds();
      EXPECT_EQ(copy.number(), 4u);
    }
    return seconds;
  };
  EXPECT_EQ(silent(), 0) << "there is no copy";
  host->BeginCopy(host->shards()[0], {4, Incarnation(7), &link});
  EXPECT_EQ(silent(), 0);
  clock.Advance(absl::Milliseconds(1900));
  EXPECT_EQ(silent(), 0);
  clock.Advance(absl::Milliseconds(600));
  EXPECT_EQ(silent(), 2.5);
  while (!link.sent.empty()) link.AnswerAll();
  EXPECT_EQ(silent(), 0);
  clock.Advance(absl::Seconds(60));
  EXPECT_EQ(silent(), 0) << "nothing is unanswered";
  PushPull(*host, 0, 0, 1);
  EXPECT_EQ(silent(), 0);
  clock.Advance(absl::Seconds(2));
  EXPECT_EQ(silent(), 2);
  host->End(absl::UnavailableError("the job has ended"));
}

TEST(CopyReportsTest, CopiesAreCountedAndNamed) {
  FakeClock clock;
  KeepingLink link;
  const auto host = MakeHost(ConsistencyMode::kAsync, 0, /*num_workers=*/1);
  CopyReports reports;
  const auto report = [&] {
    v1::CopyReport written;
    reports.Write(*host, clock.Now(), &written);
    return written;
  };
  host->BeginCopy(host->shards()[0], {4, Incarnation(7), &link});
  const uint64_t before = report().records();
  EXPECT_GT(before, 0u);
  while (!link.sent.empty()) link.AnswerAll();
  ASSERT_EQ(report().whole_size(), 1);
  EXPECT_EQ(report().whole(0).number(), 4u);
  const auto pushed = PushPull(*host, 0, 0, 1);
  EXPECT_EQ(report().held_replies(), 1u);
  ASSERT_EQ(link.sent.size(), report().records_unanswered());
  link.sent[0].second(ErrorReply(absl::DataLossError("it differs")));
  EXPECT_EQ(pushed->replies, 1) << "it goes on without the copy";
  ASSERT_EQ(report().faults_size(), 1);
  EXPECT_EQ(report().faults(0).text(), "it differs");
  EXPECT_EQ(report().whole_size(), 0);
  const uint64_t records = report().records();
  link.sent.clear();
  host->BeginCopy(host->shards()[0], {5, Incarnation(7), &link});
  EXPECT_GT(report().records(), records) << "the counts of the copy before go on";
  EXPECT_EQ(report().faults_size(), 0);
  host->End(absl::UnavailableError("the job has ended"));
}

}  // namespace
}  // namespace capstan
