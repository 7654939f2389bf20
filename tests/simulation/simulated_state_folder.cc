#include "tests/simulation/simulated_state_folder.h"

#include <utility>

#include "common/base/clock.h"

namespace capstan {
namespace {

absl::Status DeadError() { return absl::AbortedError("this process is dead"); }

}  // namespace

SimulatedStateFolder::SimulatedStateFolder(const Options& options,
                                           std::shared_ptr<MemoryStateFolder::Content> content,
                                           Random* random, SimulatedProcess* process,
                                           std::function<void()> middle)
    : options_(options),
      random_(*random),
      process_(*process),
      middle_(std::move(middle)),
      folder_(std::move(content)) {
  folder_.before = [this](absl::string_view, const std::string&) { Before(); };
}

void SimulatedStateFolder::Before() {
  SleepUntil(process_, process_.Now() + random_.UniformFloat() * options_.max_time);
  if (!process_.is_alive()) return folder_.FailNow(DeadError());
  if (!random_.Bernoulli(options_.failures)) return;
  folder_.FailNow(absl::UnavailableError("the disk does not answer"),
                  random_.Bernoulli(0.5) ? MemoryStateFolder::Effect::kNothing
                                         : MemoryStateFolder::Effect::kDone);
}

template <typename Result>
Result SimulatedStateFolder::After(Result result) {
  middle_();
  SleepUntil(process_, process_.Now() + random_.UniformFloat() * options_.max_time);
  return process_.is_alive() ? std::move(result) : Result(DeadError());
}

absl::StatusOr<std::vector<std::string>> SimulatedStateFolder::List(const std::string& path) {
  return After(folder_.List(path));
}

absl::Status SimulatedStateFolder::MakeFolder(const std::string& path) {
  return After(folder_.MakeFolder(path));
}

absl::Status SimulatedStateFolder::Write(const std::string& path, absl::string_view bytes) {
  return After(folder_.Write(path, bytes));
}

absl::StatusOr<std::string> SimulatedStateFolder::Read(const std::string& path) {
  return After(folder_.Read(path));
}

absl::Status SimulatedStateFolder::Remove(const std::string& path) {
  return After(folder_.Remove(path));
}

}  // namespace capstan
