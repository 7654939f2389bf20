#include "common/history/lives.h"

#include <glog/logging.h>

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

}  // namespace capstan
