#include "tests/simulation/round_check.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/exchange/payload.h"
#include "proto/checkpoint.pb.h"
#include "tests/simulation/local_rounds.h"
#include "worker/models/training/evaluate.h"

namespace capstan {
namespace {

std::vector<float> FloatsOf(const Payload& payload) {
  std::vector<float> floats(payload.size_bytes() / sizeof(float));
  payload.CopyTo(absl::MakeSpan(floats));
  return floats;
}

}  // namespace

class RoundCheck::Endpoint : public ParameterEndpoint {
 public:
  Endpoint(RoundCheck* check, std::unique_ptr<ParameterEndpoint> inner)
      : check_(*check), inner_(std::move(inner)) {}

  void Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                ReplyCallback done) override {
    const auto* const state = std::get_if<WorkerStatePull>(&request.purpose);
    const StepPull* const pull = PullOf(request);
    const bool has_push = PushOf(request) != nullptr;
    if (has_push) check_.CheckPush(request);
    if (pull != nullptr && !has_push) check_.CheckPull(request.slice, pull->step);
    const bool has_state = state != nullptr && state->is_program;
    if (!has_state && pull == nullptr) {
      return inner_->Exchange(std::move(request), std::move(delivered), std::move(done));
    }
    const Sender sender = request.sender;
    const SliceKey slice = request.slice;
    const Step step = has_state ? Step(0) : pull->step;
    // Replies may come after the endpoint's end.
    inner_->Exchange(std::move(request), std::move(delivered),
                     [&check = check_, sender, slice, step, has_state, has_push,
                      done = std::move(done)](ExchangeReply reply) mutable {
                       if (has_push) --check.open_pushes_[slice];
                       if (reply.status.ok() && has_state) {
                         check.NoteState(sender, reply.values);
                       } else if (reply.status.ok()) {
                         check.NoteValues(sender, slice, step, reply.values);
                       }
                       done(std::move(reply));
                     });
  }

 private:
  RoundCheck& check_;
  const std::unique_ptr<ParameterEndpoint> inner_;
};

void RoundCheck::BeginLife(const Scenario& life) {
  life_ = &life;
  open_pushes_.clear();
  missing_push_.clear();
}

void RoundCheck::CheckPull(SliceKey slice, Step step) {
  if (step != Step(life_->steps) || open_pushes_[slice] == 0 || !missing_push_.empty()) return;
  missing_push_ =
      absl::StrCat("local steps: the final values of slice ", slice.slice.value(), " of table ",
                   slice.table.value(), " are pulled before a push is answered");
}

std::unique_ptr<ParameterEndpoint> RoundCheck::Watch(std::unique_ptr<ParameterEndpoint> inner) {
  return std::make_unique<Endpoint>(this, std::move(inner));
}

RoundCheck::Process& RoundCheck::ProcessOf(const Sender& sender) {
  Process& process = processes_[sender.incarnation];
  if (process.life == nullptr) {
    process.life = life_;
    process.worker = sender.worker;
  }
  return process;
}

void RoundCheck::NoteState(const Sender& sender, const Payload& state) {
  Process& process = ProcessOf(sender);
  std::string bytes(state.size_bytes(), '\0');
  state.CopyTo({reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()});
  v1::ProgramState pieces;
  pieces.ParseFromString(bytes);
  for (const v1::ProgramState::Piece& piece : pieces.pieces()) {
    double begin[2];
    if (piece.name() != kRoundsState || piece.bytes().size() < sizeof(begin)) continue;
    std::memcpy(begin, piece.bytes().data(), sizeof(begin));
    process.before = Incarnation(static_cast<uint64_t>(begin[0]));
    process.before_round = Step(static_cast<int64_t>(begin[1]));
    process.has_state = true;
  }
}

void RoundCheck::NoteValues(const Sender& sender, SliceKey slice, Step step,
                            const Payload& values) {
  ProcessOf(sender).values.emplace(std::make_pair(slice, step), FloatsOf(values));
}

KnownSlice RoundCheck::FirstOf(const Process& process, SliceKey slice) const {
  const auto values_of = [&process, slice](Step step) -> const std::vector<float>* {
    const auto found = process.values.find({slice, step});
    return found == process.values.end() ? nullptr : &found->second;
  };
  // Its first pull.
  const auto first = process.values.lower_bound({slice, Step(0)});
  const Step begin = first == process.values.end() ? Step(0) : first->first.second;
  const auto before = processes_.find(process.before);
  if (!process.has_state || before == processes_.end()) {
    return KnownSlice(*process.life, process.worker, slice, begin, values_of);
  }
  KnownSlice left = FirstOf(before->second, slice);
  left.BeginRound(process.before_round);
  return KnownSlice(left, begin, values_of);
}

void RoundCheck::CheckPush(const ExchangeRequest& request) {
  ++checked_pushes_;
  ++open_pushes_[request.slice];
  const StepPush& push = *PushOf(request);
  const Process& process = ProcessOf(request.sender);
  const auto key = std::make_pair(request.sender.incarnation, request.slice);
  auto known = slices_.find(key);
  if (known == slices_.end()) known = slices_.emplace(key, FirstOf(process, request.slice)).first;
  const std::optional<std::vector<float>> expected = known->second.Push(push.step);
  const char* finding = nullptr;
  if (!expected.has_value()) {
    finding = ", before it has the values of this round";
  } else if (!push.gradient.has_value()) {
    finding = ", without a gradient";
  } else if (FloatsOf(push.gradient->bytes) != *expected) {
    finding = ", but not what its local steps from the values that it had taken come to";
  }
  if (finding == nullptr || !wrong_.empty()) return;
  wrong_ = absl::StrCat("local steps: worker ", request.sender.worker.value(), " pushes round ",
                        push.step.value(), " of slice ", request.slice.slice.value(), " of table ",
                        request.slice.table.value(), finding);
}

std::string WrongRoundsEnd(const Scenario& scenario, const JobOutcome& outcome, bool has_all) {
  const std::vector<std::vector<float>> tables = KnownRoundsEnd(scenario);
  const std::vector<absl::Span<const float>> spans(tables.begin(), tables.end());
  const uint64_t expected = HashParameters(spans);
  const uint64_t got = outcome.result.parameters_xxh3();
  if (got != expected) {
    return absl::StrCat("local steps: expected final parameters with the XXH3-64 ",
                        absl::Hex(expected), ", got ", absl::Hex(got));
  }
  if (!has_all || !scenario.coordinator_losses.empty()) return "";
  for (int worker = 0; worker < outcome.last_status.progress_size(); ++worker) {
    uint64_t done = 0;
    for (Step round; round < Step(scenario.steps); round = round + 1) {
      done += static_cast<uint64_t>(
          scenario.program->LocalStepsOf(WorkerId(static_cast<uint32_t>(worker)), round));
    }
    const uint64_t told = outcome.last_status.progress(worker).local_steps();
    if (told == done) continue;
    return absl::StrCat("local steps: worker ", worker, " has done ", done,
                        " of them, and the coordinator says ", told);
  }
  return "";
}

}  // namespace capstan
