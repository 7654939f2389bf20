#include "server/service/copy_reports.h"

#include <gtest/gtest.h>

#include <memory>
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

class CopyReportsTest : public testing::Test {
 protected:
  ~CopyReportsTest() override { host_->End(absl::UnavailableError("the job has ended")); }

  void BeginCopy(uint64_t number) {
    host_->BeginCopy(host_->shards()[0], {number, Incarnation(7), &link_});
  }
  // Until the copy is whole.
  void AnswerAll() {
    while (!link_.sent.empty()) link_.AnswerAll();
  }
  v1::CopyReport Report() {
    v1::CopyReport report;
    reports_.Write(*host_, clock_.Now(), &report);
    return report;
  }
  // Seconds without an answer. 0: no copy is named.
  double Silence() {
    const v1::CopyReport report = Report();
    return report.silent_size() == 0 ? 0 : report.silent(0).seconds();
  }

  FakeClock clock_;
  KeepingLink link_;
  const std::unique_ptr<ShardHost> host_ = MakeHost(ConsistencyMode::kAsync, 0, /*num_workers=*/1);
  CopyReports reports_;
};

TEST_F(CopyReportsTest, ACopyThatAcknowledgesNothingForAWhileIsNamed) {
  EXPECT_EQ(Silence(), 0) << "there is no copy";
  BeginCopy(/*number=*/4);
  EXPECT_EQ(Silence(), 0);
  clock_.Advance(absl::Milliseconds(1900));
  EXPECT_EQ(Silence(), 0);
  clock_.Advance(absl::Milliseconds(600));
  EXPECT_EQ(Silence(), 2.5);
  EXPECT_EQ(Report().silent(0).number(), 4u);
  AnswerAll();
  EXPECT_EQ(Silence(), 0);
  clock_.Advance(absl::Seconds(60));
  EXPECT_EQ(Silence(), 0) << "nothing is unanswered";
  PushPull(*host_, 0, 0, 1);
  EXPECT_EQ(Silence(), 0);
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(Silence(), 2);
}

TEST_F(CopyReportsTest, CopiesAreCountedAndNamed) {
  BeginCopy(/*number=*/4);
  EXPECT_GT(Report().records(), 0u);
  AnswerAll();
  ASSERT_EQ(Report().whole_size(), 1);
  EXPECT_EQ(Report().whole(0).number(), 4u);
  const auto pushed = PushPull(*host_, 0, 0, 1);
  EXPECT_EQ(Report().held_replies(), 1u);
  ASSERT_EQ(link_.sent.size(), Report().records_unanswered());
  link_.sent[0].second(ErrorReply(absl::DataLossError("it differs")));
  EXPECT_EQ(pushed->replies, 0) << "the coordinator may still take the copy for whole";
  ASSERT_EQ(Report().faults_size(), 1);
  EXPECT_EQ(Report().faults(0).text(), "it differs");
  EXPECT_EQ(Report().whole_size(), 0);
  host_->EndCopy(host_->shards()[0], /*number=*/4);
  EXPECT_EQ(pushed->replies, 1) << "it goes on without the copy";
  const uint64_t records = Report().records();
  link_.sent.clear();
  BeginCopy(/*number=*/5);
  EXPECT_GT(Report().records(), records) << "the counts of the copy before go on";
  EXPECT_EQ(Report().faults_size(), 0);
}

}  // namespace
}  // namespace capstan
