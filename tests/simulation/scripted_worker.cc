#include "tests/simulation/scripted_worker.h"

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/membership/await_reply.h"
#include "common/membership/member_agent.h"
#include "common/membership/report_failure.h"
#include "tests/simulation/sleep_on.h"

namespace capstan {

absl::Status ScriptedWorker::Run() {
  ASSIGN_OR_RETURN(
      const v1::GetJobReply job,
      AwaitReply(*options_.coordinator, &CoordinatorEndpoint::GetJob, {}, *options_.clock));
  ASSIGN_OR_RETURN(const uint32_t id, Register());
  absl::Status status = RunRegistered(job, id);
  if (!status.ok()) {
    ReportFailure(*options_.coordinator, v1::HeartbeatRequest::WORKER, id, options_.incarnation,
                  status, *options_.clock);
  }
  return status;
}

absl::StatusOr<uint32_t> ScriptedWorker::Register() {
  constexpr int kTries = 200;
  v1::RegisterWorkerRequest request;
  request.set_incarnation(options_.incarnation.value());
  request.set_may_enter_late(true);
  for (const v1::TableSpec& table : options_.script.tables) *request.add_tables() = table;
  absl::StatusOr<v1::RegisterReply> reply;
  for (int i = 0; i < kTries; ++i) {
    reply = AwaitReply(*options_.coordinator, &CoordinatorEndpoint::RegisterWorker, request,
                       *options_.clock);
    if (!absl::IsFailedPrecondition(reply.status())) break;
    SleepOn(*options_.clock, options_.ask_again_after);
  }
  if (!reply.ok()) return reply.status();
  return reply->id();
}

absl::Status ScriptedWorker::RunRegistered(const v1::GetJobReply& job, uint32_t id) {
  MemberAgent::Options member;
  member.role = v1::HeartbeatRequest::WORKER;
  member.id = id;
  member.incarnation = options_.incarnation;
  member.on_view = [this](const v1::JobView& view) { OnView(view); };
  member.on_lost = [this](const absl::Status& status) { OnLost(status); };
  member.progress = [this] {
    if (const auto training = CurrentTraining()) return training->progress();
    v1::Progress progress;
    progress.set_steps_total(options_.script.steps);
    return progress;
  };
  MemberAgent agent(std::move(member), *options_.coordinator, *options_.clock);
  agent.Start();
  absl::Status status = TrainAndEvaluate(job, id, [&agent] { agent.ReportNow(); });
  if (status.ok()) return status;
  // A job that has failed, or ended, knows better why.
  const auto view = watch_.WaitFor([](const v1::JobView&) { return true; });
  if (!view.ok()) return view.status();
  return view->phase() == v1::DONE ? absl::OkStatus() : status;
}

absl::Status ScriptedWorker::TrainAndEvaluate(const v1::GetJobReply& job, uint32_t id,
                                              absl::AnyInvocable<void()> report_now) {
  const auto may_start = [id](const v1::JobView& view) {
    return view.phase() >= v1::TRAINING && !view.workers(static_cast<int>(id)).is_entering();
  };
  ASSIGN_OR_RETURN(const v1::JobView view, watch_.WaitFor(may_start));
  ScriptedTraining::Options options;
  options.clock = options_.clock;
  options.job = &job;
  options.view = &view;
  options.script = &options_.script;
  options.worker = WorkerId(id);
  options.incarnation = options_.incarnation;
  options.connect = std::move(options_.connect);
  const auto training = std::make_shared<ScriptedTraining>(std::move(options));
  {
    MutexLock lock(&mu_);
    training_ = training;
  }
  // What came while it was made.
  RETURN_IF_ERROR(watch_.WaitFor(may_start).status());
  RETURN_IF_ERROR(training->Run(Step(view.workers(static_cast<int>(id)).first_step())));
  report_now();
  bool has_evaluated = false;
  while (true) {
    ASSIGN_OR_RETURN(const v1::JobView now, watch_.WaitFor([&](const v1::JobView& next) {
      const bool is_evaluator = next.phase() == v1::EVALUATING && next.evaluator() == id;
      return next.phase() == v1::DONE || (is_evaluator && !has_evaluated);
    }));
    if (now.phase() == v1::DONE) return absl::OkStatus();
    RETURN_IF_ERROR(EvaluateAndReport(id));
    has_evaluated = true;
  }
}

absl::Status ScriptedWorker::EvaluateAndReport(uint32_t id) {
  RETURN_IF_ERROR(CurrentTraining()->PullFinal());
  v1::ReportResultRequest request;
  request.set_worker(id);
  request.set_incarnation(options_.incarnation.value());
  return AwaitReply(*options_.coordinator, &CoordinatorEndpoint::ReportResult, request,
                    *options_.clock)
      .status();
}

void ScriptedWorker::OnView(const v1::JobView& view) {
  watch_.OnView(view);
  const auto training = CurrentTraining();
  if (training == nullptr) return;
  training->UpdateRouting(RoutingTableFromView(view));
  if (view.phase() == v1::FAILED) {
    training->Fail(absl::AbortedError(absl::StrCat("the job has failed: ", view.reason())));
  }
}

void ScriptedWorker::OnLost(const absl::Status& lost) {
  const absl::Status status = absl::AbortedError(lost.message());
  watch_.OnLost(status);
  if (const auto training = CurrentTraining()) training->Fail(status);
}

std::shared_ptr<ScriptedTraining> ScriptedWorker::CurrentTraining() {
  MutexLock lock(&mu_);
  return training_;
}

}  // namespace capstan
