#include "tests/simulation/simulated_coordinators.h"

#include <glog/logging.h>

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "server/coordinator/saved_job.h"
#include "server/coordinator/state/saved_states.h"
#include "tests/simulation/simulated_state_folder.h"

namespace capstan {
namespace {

constexpr char kFolder[] = "state";
// Until a launcher starts another process.
constexpr absl::Duration kUntilNextStart = absl::Milliseconds(50);
// Until a process that ends has closed its connections.
constexpr absl::Duration kLongestEnd = absl::Milliseconds(100);
// An open call waits for the earlier coordinator for this time at the latest.
constexpr absl::Duration kLongestCall = absl::Milliseconds(300);
constexpr absl::Duration kBetweenLooks = absl::Milliseconds(2);

}  // namespace

// A member's way to the coordinators. It has one connection to each that it knows.
class SimulatedCoordinators::Door : public CoordinatorEndpoint {
 public:
  Door(SimulatedCoordinators* owner, SimulatedProcess* member, v1::AutoCodecs choice,
       absl::Time known_at)
      : owner_(*owner), member_(*member), choice_(std::move(choice)), known_at_(known_at) {}

  void Call(CoordinatorRequest request, Callback<CoordinatorReply> done) override {
    if (life_ == nullptr || life_->is_broken) life_ = owner_.Newest();
    const bool can_call = member_.is_alive() && !owner_.is_over_;
    if (!can_call) return done(absl::FailedPreconditionError("this process is dead"));
    if (life_ == nullptr) {
      const absl::Duration way = owner_.network_.options().latency;
      member_.RunAfter(way, [done = std::move(done)]() mutable {
        done(absl::UnavailableError("no coordinator is there"));
      });
      return;
    }
    ConnectionTo(*life_).Call(std::move(request),
                              [this, life = life_, done = std::move(done)](
                                  absl::StatusOr<CoordinatorReply> reply) mutable {
                                if (absl::IsUnavailable(reply.status())) LeaveFor(nullptr, life);
                                done(std::move(reply));
                              });
  }

  // Another coordinator is there.
  void Hear(Life* newer) {
    Life* const older = life_;
    if (older == nullptr || older->is_broken) return;
    // Nothing tells a member of another coordinator as long as its own answers.
    if (!older->is_paused && owner_.random_.Bernoulli(0.5)) return;
    MoveAfter(owner_.UpTo(owner_.scenario_.move_time), older, newer);
  }
  // The coordinator goes on after its pause.
  void HearAgain(Life* older) {
    if (life_ == older || life_ == nullptr || !owner_.random_.Bernoulli(0.3)) return;
    MoveAfter(owner_.UpTo(owner_.scenario_.move_time), life_, older);
  }
  // The connections to it break.
  void Break(const Life* life) {
    member_.RunAfter(owner_.network_.options().latency, [this, life] { connections_.erase(life); });
  }

 private:
  CoordinatorEndpoint& ConnectionTo(Life& life) {
    std::unique_ptr<CoordinatorEndpoint>& connection = connections_[&life];
    if (connection == nullptr) {
      connection =
          owner_.network_.Connect(&member_, &life.process, life.checked.get(), choice_, known_at_);
    }
    return *connection;
  }
  void MoveAfter(absl::Duration delay, Life* from, Life* to) {
    member_.RunAfter(delay, [this, from, to] {
      if (to->is_broken || to->is_lost) return;
      LeaveFor(to, from);
      // A call that is open to the earlier one may still be answered.
      member_.RunAfter(owner_.UpTo(kLongestCall), [this, from] {
        if (life_ != from) connections_.erase(from);
      });
    });
  }
  // Goes to the newest one instead of null.
  void LeaveFor(Life* to, const Life* from) {
    if (life_ != from) return;
    if (to == nullptr) to = owner_.Newest();
    if (to != nullptr) life_ = to;
  }

  SimulatedCoordinators& owner_;
  SimulatedProcess& member_;
  const v1::AutoCodecs choice_;
  const absl::Time known_at_;
  Life* life_ = nullptr;  // for the next call; null: not known yet
  std::map<const Life*, std::unique_ptr<CoordinatorEndpoint>> connections_;
};

SimulatedCoordinators::SimulatedCoordinators(Options options)
    : options_(std::move(options)),
      scenario_(*options_.scenario),
      world_(*options_.world),
      network_(*options_.network),
      random_(scenario_.seed, /*stream=*/18),
      membership_(&world_, options_.log) {
  Life& first = *lives_.emplace_back(std::make_unique<Life>(&world_));
  if (scenario_.keeps_state) return;
  Coordinator::Options of_first = MakeOptions(first);
  of_first.restored = Restored(std::nullopt);
  Enter(first, std::move(of_first));
}

void SimulatedCoordinators::Destroy() {
  for (const auto& life : lives_) life->coordinator.reset();
}

void SimulatedCoordinators::Start(std::function<void(JobOutcome)> on_end) {
  on_end_ = std::move(on_end);
  Life& first = *lives_.front();
  if (!scenario_.keeps_state) {
    first.coordinator->OnEnd([this](JobOutcome outcome) { on_end_(std::move(outcome)); });
    return;
  }
  first.process.Spawn([this, &first] { Open(first); });
  for (const CoordinatorLoss& loss : scenario_.coordinator_losses) {
    world_.RunAfter(loss.at, [this, &loss] { Lose(loss); });
  }
}

std::unique_ptr<CoordinatorEndpoint> SimulatedCoordinators::Connect(SimulatedProcess* member,
                                                                    v1::AutoCodecs choice,
                                                                    absl::Time known_at) {
  if (!scenario_.keeps_state) {
    Life& only = *lives_.front();
    return network_.Connect(member, &only.process, only.recorded.get(), std::move(choice),
                            known_at);
  }
  auto door = std::make_unique<Door>(this, member, std::move(choice), known_at);
  doors_.push_back(door.get());
  return door;
}

Coordinator::Options SimulatedCoordinators::MakeOptions(Life& life) {
  Coordinator::Options options;
  options.job = scenario_.job;
  options.job_fingerprint = options_.job_fingerprint;
  const bool has_checkpoints = !scenario_.job.checkpoint().dir().empty();
  if (has_checkpoints) options.checkpoints = options_.disk->OpenForCoordinator();
  options.save_in_background = [this, &life](absl::AnyInvocable<void()> work) {
    AddSave(life, std::move(work));
  };
  options.on_lost = [this, &life](const absl::Status& status) { OnLost(life, status); };
  return options;
}

std::optional<RestorePoint> SimulatedCoordinators::Restored(
    const std::optional<SavedJob>& saved) const {
  if (!saved.has_value()) {
    if (options_.restored.empty()) return std::nullopt;
    // After the job's end there may be a newer one than at the begin.
    const std::string newest = options_.disk->Newest();
    return RestorePoint{newest, *options_.disk->Get(newest).manifest};
  }
  const v1::JobConstants& constants = *saved->constants;
  if (constants.restore().empty()) return std::nullopt;
  return RestorePoint{constants.restore(), constants.restored()};
}

void SimulatedCoordinators::AddSave(Life& life, absl::AnyInvocable<void()> work) {
  life.saves.push_back(std::move(work));
  if (std::exchange(life.is_saving, true)) return;
  life.process.Spawn([&life] {
    while (!life.saves.empty()) {
      absl::AnyInvocable<void()> next = std::move(life.saves.front());
      life.saves.pop_front();
      next();
    }
    life.is_saving = false;
  });
}

void SimulatedCoordinators::Enter(Life& life, Coordinator::Options options) {
  life.coordinator = std::make_unique<Coordinator>(std::move(options), life.process);
  life.recorded = membership_.Watch(life.coordinator.get());
}

void SimulatedCoordinators::Begin() {
  if (has_ended_ || is_over_) return;
  Life& life = *lives_.emplace_back(std::make_unique<Life>(&world_));
  life.process.Spawn([this, &life] { Open(life); });
}

void SimulatedCoordinators::BeginAfter(absl::Duration delay) {
  ++beginning_;
  world_.RunAfter(delay, [this] {
    --beginning_;
    Begin();
  });
}

void SimulatedCoordinators::Open(Life& life) {
  while (life.process.is_alive()) {
    FileStateStore::Options options;
    options.folder = std::make_unique<SimulatedStateFolder>(scenario_.state_folder, folder_,
                                                            &random_, &life.process,
                                                            [this, &life] { NoteOperation(life); });
    options.dir = kFolder;
    options.check = [this](const SavedJob& saved) { return CheckSavedJob(saved, scenario_.job); };
    absl::StatusOr<FileStateStore::Opened> opened = FileStateStore::Open(std::move(options));
    if (!life.process.is_alive()) return;
    if (opened.ok()) return TakeOver(life, *std::move(opened));
    if (absl::IsAborted(opened.status())) return OnLost(life, opened.status());
    if (!absl::IsUnavailable(opened.status()) && fault_.empty()) {
      fault_ = absl::StrCat("the state can be read: ", opened.status().ToString());
    }
    if (is_over_ || !fault_.empty()) return;
    SleepUntil(life.process, life.process.Now() + kUntilNextStart);
  }
}

void SimulatedCoordinators::TakeOver(Life& life, FileStateStore::Opened opened) {
  life.term = opened.store->term();
  check_.BeginTerm(life.term, opened.before.has_value() ? &*opened.before : nullptr);
  Coordinator::Options options = MakeOptions(life);
  options.store = std::move(opened.store);
  options.folder_token = 1;
  if (opened.before.has_value()) {
    options.job_fingerprint = opened.before->state.job_fingerprint();
    options.folder_token = opened.before->state.folder_token();
  }
  options.restored = Restored(opened.before);
  options.saved = std::move(opened.before);
  Enter(life, std::move(options));
  life.checked = check_.Watch(life.term, life.recorded.get());
  life.coordinator->OnEnd([this](JobOutcome outcome) {
    if (!is_over_) check_.NoteOutcome(outcome.status.message());
    on_end_(std::move(outcome));
  });
  if (!stop_reason_.empty()) life.coordinator->Fail(stop_reason_);
  for (Door* const door : doors_) door->Hear(&life);
}

void SimulatedCoordinators::OnLost(Life& life, const absl::Status& status) {
  if (!life.process.is_alive() || is_over_) return;
  life.is_lost = true;
  MemoryStateFolder folder(folder_);
  const bool has_later = ListTerms(folder)->front() > life.term;
  if (!has_later && fault_.empty()) {
    fault_ = absl::StrCat("lost without a later one: the coordinator of term ", life.term, ": ",
                          status.ToString());
  }
  if (!stop_reason_.empty()) Fail(stop_reason_);
  world_.RunAfter(UpTo(kLongestEnd), [this, &life] {
    if (life.process.is_alive()) End(life);
    // The process of the later term may be dead by now.
    for (const auto& other : lives_) {
      if (other->process.is_alive()) return;
    }
    if (beginning_ == 0) BeginAfter(kUntilNextStart);
  });
}

void SimulatedCoordinators::Lose(const CoordinatorLoss& loss) {
  if (has_ended_ || is_over_) return;
  const v1::Phase phase = Status().view().phase();
  const bool is_early = phase != v1::EVALUATING && phase != v1::DONE && phase != v1::FAILED;
  if (loss.waits_for_evaluation && is_early) {
    world_.RunAfter(kBetweenLooks, [this, &loss] { Lose(loss); });
    return;
  }
  loss.waits_for_save ? at_operations_.push_back(&loss) : LoseNow(loss);
}

void SimulatedCoordinators::NoteOperation(const Life& life) {
  const bool is_newest = &life == lives_.back().get();
  if (at_operations_.empty() || has_ended_ || is_over_ || !is_newest) return;
  // Some operations later.
  if (random_.Bernoulli(0.6)) return;
  const CoordinatorLoss& loss = *at_operations_.front();
  at_operations_.pop_front();
  LoseNow(loss);
}

void SimulatedCoordinators::LoseNow(const CoordinatorLoss& loss) {
  Life& life = *lives_.back();
  if (!life.process.is_alive() || life.is_paused) return;
  BeginAfter(loss.returns_after);
  if (loss.kind == CoordinatorLoss::Kind::kKill) return End(life);
  life.is_paused = true;
  life.process.Pause();
  world_.RunAfter(loss.pause, [this, &life] { Resume(life); });
}

void SimulatedCoordinators::Resume(Life& life) {
  if (!life.process.is_alive()) return;
  life.is_paused = false;
  life.process.Resume();
  if (life.coordinator == nullptr || Newest() == &life) return;
  for (Door* const door : doors_) door->HearAgain(&life);
}

void SimulatedCoordinators::End(Life& life) {
  life.process.Kill();
  life.is_broken = true;
  for (Door* const door : doors_) door->Break(&life);
}

SimulatedCoordinators::Life* SimulatedCoordinators::Newest() const {
  Life* newest = nullptr;
  for (const auto& life : lives_) {
    const bool is_there = life->coordinator != nullptr && !life->is_broken && !life->is_lost;
    if (is_there && (newest == nullptr || life->term > newest->term)) newest = life.get();
  }
  return newest;
}

v1::GetStatusReply SimulatedCoordinators::Status() const {
  if (Life* const life = Newest()) return life->coordinator->NewestStatus();
  v1::GetStatusReply status;
  *status.mutable_view() = KeptView();
  return status;
}

v1::JobView SimulatedCoordinators::KeptView() const {
  if (!scenario_.keeps_state) return Newest()->coordinator->NewestStatus().view();
  MemoryStateFolder folder(folder_);
  const absl::StatusOr<std::optional<SavedJob>> saved = ReadNewestState(folder, kFolder);
  CHECK(saved.ok()) << saved.status();
  return saved->has_value() ? (*saved)->state.view() : v1::JobView();
}

void SimulatedCoordinators::RunAfter(absl::Duration delay, std::function<void(Coordinator&)> run) {
  if (!scenario_.keeps_state) {
    Life& only = *lives_.front();
    only.process.RunAfter(delay, [&only, run = std::move(run)] { run(*only.coordinator); });
    return;
  }
  world_.RunAfter(delay, [this, run = std::move(run)] {
    Life* const life = Newest();
    if (life == nullptr) return;
    life->process.RunAfter(absl::ZeroDuration(), [life, run] { run(*life->coordinator); });
  });
}

void SimulatedCoordinators::Fail(std::string reason) {
  stop_reason_ = std::move(reason);
  RunAfter(absl::ZeroDuration(),
           [this](Coordinator& coordinator) { coordinator.Fail(stop_reason_); });
}

void SimulatedCoordinators::Kill() {
  is_over_ = true;
  for (const auto& life : lives_) life->process.Kill();
}

void SimulatedCoordinators::Bury() {
  is_over_ = true;
  for (const auto& life : lives_) {
    life->process.is_alive() ? life->process.Resume() : life->process.Bury();
  }
}

}  // namespace capstan
