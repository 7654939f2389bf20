#ifndef COMMON_HISTORY_HISTORY_BUILDER_H_
#define COMMON_HISTORY_HISTORY_BUILDER_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "common/history/history.h"
#include "proto/history.pb.h"

namespace capstan {

// Writes histories by hand, for tests: 2 workers (0 and 1, incarnations 100 and 101), 4 steps, one
// slice; times in microseconds.
class HistoryBuilder {
 public:
  using Update = std::pair<uint32_t, int64_t>;  // worker and step

  HistoryBuilder(v1::ContractRecord::Mode mode, int64_t staleness) {
    v1::HistoryHeader& header = *Next().mutable_header();
    header.set_format_version(1);
    header.set_job(1);
    header.set_num_workers(2);
    header.set_steps(4);
    header.set_has_test_values(true);
    header.set_settle_ns(1'000'000);
    Promise(0, mode, staleness);
    Member(v1::MembershipRecord::ENTERED, 0, 100, 0);
    Member(v1::MembershipRecord::ENTERED, 1, 101, 0);
  }

  HistoryBuilder& Promise(int64_t from_step, v1::ContractRecord::Mode mode, int64_t staleness,
                          std::optional<uint32_t> table = std::nullopt) {
    v1::ContractRecord& contract = *Next().mutable_contract();
    contract.set_from_step(from_step);
    contract.set_mode(mode);
    contract.set_staleness(staleness);
    contract.set_has_table(table.has_value());
    contract.set_table(table.value_or(0));
    return *this;
  }

  HistoryBuilder& Member(v1::MembershipRecord::Event event, uint32_t worker, uint64_t incarnation,
                         int64_t at_us, int64_t first_step = 0) {
    v1::MembershipRecord& member = *Next().mutable_membership();
    member.set_event(event);
    member.set_worker(worker);
    member.set_incarnation(incarnation);
    member.set_first_step(first_step);
    member.set_time_ns(at_us * 1000);
    return *this;
  }

  // The job goes on from a checkpoint of `step`, in which the slice has these updates.
  HistoryBuilder& Restore(int64_t step, const std::vector<Update>& updates) {
    records_.front().mutable_header()->set_restored_step(step);
    v1::RestoredSlice& restored = *Next().mutable_restored();
    for (const auto& [worker, update_step] : updates) {
      v1::RestoredSlice::Update& update = *restored.add_updates();
      update.set_worker(worker);
      update.set_step(update_step);
      update.set_learning_rate_divisor(1);
    }
    return *this;
  }

  // A request without an answer. `push` below 0: no push.
  HistoryBuilder& Ask(uint32_t worker, uint64_t incarnation, int64_t push, int64_t pull,
                      int64_t begin_us) {
    v1::ExchangeBegan& began = *Next().mutable_began();
    began.set_id(++last_id_);
    began.set_worker(worker);
    began.set_incarnation(incarnation);
    began.set_has_push(push >= 0);
    began.set_push_step(push);
    began.set_has_pull(true);
    began.set_pull_step(pull);
    began.set_time_ns(begin_us * 1000);
    return *this;
  }

  // Answers the last request. The values hold each update as often as `updates` names it. With
  // `is_mean`, as under BSP, each is a part of its step's mean.
  HistoryBuilder& Answer(int64_t end_us, uint64_t version, int64_t min_step,
                         const std::vector<Update>& updates, bool is_mean = false) {
    const uint64_t incarnation = records_.back().began().incarnation();
    v1::ExchangeEnded& ended = *Next().mutable_ended();
    ended.set_id(last_id_);
    ended.set_incarnation(incarnation);
    ended.set_version(version);
    ended.set_min_step(min_step);
    std::map<int64_t, int> of_step;
    for (const Update& update : updates) ++of_step[update.second];
    ended.mutable_values()->Resize(2 * 4, 0);
    for (const auto& [worker, step] : updates) {
      const size_t element = TestElement(WorkerId(worker), Step(step), 4);
      float& value = *ended.mutable_values()->Mutable(static_cast<int>(element));
      value += kTestUpdate / static_cast<float>(is_mean ? of_step[step] : 1);
    }
    ended.set_time_ns(end_us * 1000);
    return *this;
  }

  // Turns the values into changes, as a real run records them.
  HistoryBuilder& UseChanges() {
    std::map<uint64_t, std::vector<float>> latest;  // by incarnation
    for (v1::HistoryRecord& record : records_) {
      if (record.ended().values().empty()) continue;
      v1::ExchangeEnded& ended = *record.mutable_ended();
      std::vector<float>& before = latest[ended.incarnation()];
      before.resize(static_cast<size_t>(ended.values_size()));
      for (int i = 0; i < ended.values_size(); ++i) {
        if (before[static_cast<size_t>(i)] == ended.values(i)) continue;
        before[static_cast<size_t>(i)] = ended.values(i);
        ended.add_changed_elements(static_cast<uint32_t>(i));
        ended.add_changed_values(ended.values(i));
      }
      ended.set_has_changes(true);
      ended.clear_values();
    }
    return *this;
  }

  HistoryBuilder& End(int64_t at_us) {
    Next().mutable_end()->set_time_ns(at_us * 1000);
    return *this;
  }

  std::vector<v1::HistoryRecord>& records() { return records_; }

  History Build() const {
    HistoryAssembler assembler;
    EXPECT_TRUE(assembler.AddFile(records_).ok());
    return assembler.Finish().value();
  }

 private:
  v1::HistoryRecord& Next() { return records_.emplace_back(); }

  std::vector<v1::HistoryRecord> records_;
  uint64_t last_id_ = 0;
};

}  // namespace capstan

#endif  // COMMON_HISTORY_HISTORY_BUILDER_H_
