#include "common/history/check/history_index.h"

#include <glog/logging.h>

#include <utility>

namespace capstan {

Lives::Lives(const History& history) {
  for (const v1::MembershipRecord& record : history.membership) {
    Life& life = Add(WorkerId(record.worker()), Incarnation(record.incarnation()));
    switch (record.event()) {
      case v1::MembershipRecord::JOINING:
        life.joining_ns = record.time_ns();
        life.entered_ns = kNeverNs;
        break;
      case v1::MembershipRecord::ENTERED:
        life.entered_ns = record.time_ns();
        life.first_step = Step(record.first_step());
        break;
      case v1::MembershipRecord::DIED:
        life.died_ns = record.time_ns();
        break;
      case v1::MembershipRecord::LEFT:
        life.died_ns = record.time_ns();
        life.has_left = true;
        break;
      default:
        break;
    }
  }
  for (const RecordedExchange& exchange : history.exchanges) {
    Add(exchange.worker, exchange.incarnation);
  }
}

Life& Lives::Add(WorkerId worker, Incarnation incarnation) {
  std::vector<Life>& lives = lives_[worker];
  for (Life& life : lives) {
    if (life.incarnation == incarnation) return life;
  }
  lives.emplace_back().incarnation = incarnation;
  return lives.back();
}

const Life& Lives::Of(const RecordedExchange& exchange) const {
  const Life* found = nullptr;
  for (const Life& life : lives_.at(exchange.worker)) {
    if (life.incarnation == exchange.incarnation) found = &life;
  }
  return *CHECK_NOTNULL(found);
}

const Life* Lives::Through(WorkerId worker, int64_t begin_ns, int64_t end_ns) const {
  for (const Life& life : lives_.at(worker)) {
    if (life.entered_ns <= begin_ns && life.died_ns > end_ns) return &life;
  }
  return nullptr;
}

SliceHistory::SliceHistory(std::vector<const RecordedExchange*> exchanges,
                           const v1::RestoredSlice& restored)
    : exchanges_(std::move(exchanges)) {
  for (const v1::RestoredSlice::Update& update : restored.updates()) {
    RecordedExchange push;
    push.worker = WorkerId(update.worker());
    push.slice = key();
    push.push_step = Step(update.step());
    push.end_ns = 0;
    push.code = absl::StatusCode::kOk;
    push.learning_rate_divisor = update.learning_rate_divisor();
    push.is_empty_push = update.is_empty_push();
    const RecordedExchange* const made =
        restored_.emplace_back(std::make_shared<const RecordedExchange>(push)).get();
    pushes_[{push.worker, *push.push_step}] = {made, made, push.learning_rate_divisor,
                                               /*is_restored=*/true};
  }
  for (const RecordedExchange* exchange : exchanges_) {
    if (!exchange->push_step.has_value()) continue;
    PushFacts& facts = pushes_[{exchange->worker, *exchange->push_step}];
    if (facts.first_sent == nullptr) facts.first_sent = exchange;
    if (!exchange->is_ok()) continue;
    facts.learning_rate_divisor =
        std::max(facts.learning_rate_divisor, exchange->learning_rate_divisor);
    const bool is_first =
        facts.first_acknowledged == nullptr || exchange->end_ns < facts.first_acknowledged->end_ns;
    if (is_first) facts.first_acknowledged = exchange;
  }
  for (const auto& [update, facts] : pushes_) {
    has_empty_pushes_ = has_empty_pushes_ || facts.is_empty();
  }
}

PushFacts SliceHistory::FactsOf(WorkerId worker, Step step) const {
  const auto it = pushes_.find({worker, step});
  return it == pushes_.end() ? PushFacts() : it->second;
}

std::vector<SliceHistory> SplitBySlice(const History& history) {
  std::map<SliceKey, std::vector<const RecordedExchange*>> exchanges;
  for (const RecordedExchange& exchange : history.exchanges) {
    exchanges[exchange.slice].push_back(&exchange);
  }
  std::vector<SliceHistory> slices;
  for (auto& [key, of_slice] : exchanges) {
    const auto restored = history.restored.find(key);
    slices.emplace_back(std::move(of_slice), restored == history.restored.end()
                                                 ? v1::RestoredSlice()
                                                 : restored->second);
  }
  return slices;
}

}  // namespace capstan
