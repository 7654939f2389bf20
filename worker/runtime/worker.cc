#include "worker/runtime/worker.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/log_format.h"
#include "common/base/status_macros.h"
#include "common/job/job_properties.h"
#include "common/membership/coordinator_endpoint.h"
#include "common/membership/member_agent.h"
#include "common/routing/routing_table.h"
#include "worker/client/own_state.h"
#include "worker/runtime/training_session.h"

namespace capstan {
namespace {

// How long a worker waits before it asks again whether `next` has become its rank. All workers of a
// large job together must not ask too often.
absl::Duration TimeUntilTurn(uint32_t rank, uint32_t next, absl::Duration longest) {
  return std::min<absl::Duration>(longest, absl::Milliseconds(50) * (rank - next));
}

// How long a worker that has waited this long for a lost one's place waits before it asks again. A
// broken connection is noticed within a fraction of a second, a silent worker after its lease.
absl::Duration TimeUntilNextQuestion(absl::Duration waited, absl::Duration longest) {
  constexpr absl::Duration kShortest = absl::Milliseconds(20);
  return std::min(longest, std::max(kShortest, waited / 4));
}

// Adds what helps against gradients that are too large, where the job's flags have the learning
// rate. A program of the user's knows best itself.
absl::Status WithAdvice(const absl::Status& status, const v1::JobSpec& job) {
  const std::string advice = absl::StrCat(
      ". Try a smaller ", HasLocalSteps(job) ? "--local_learning_rate" : "--learning_rate",
      ", and look at the data");
  if (job.model().type() == v1::ModelSpec::PROGRAM ||
      !absl::StrContains(status.message(), "the gradient") ||
      !absl::StrContains(status.message(), "holds a NaN or an infinity") ||
      absl::StrContains(status.message(), advice)) {
    return status;
  }
  return absl::Status(status.code(), absl::StrCat(status.message(), advice));
}

}  // namespace

absl::StatusOr<WorkerId> RegisterWorker(const v1::JobSpec& job, Incarnation incarnation,
                                        const std::vector<v1::TableSpec>& tables,
                                        uint32_t own_arrays, const std::string& host,
                                        CoordinatorEndpoint& coordinator, Clock& clock,
                                        const RegisterOptions& options) {
  v1::RegisterWorkerRequest request;
  if (options.rank.has_value()) request.set_rank(*options.rank);
  request.set_incarnation(incarnation.value());
  request.set_may_enter_late(true);
  request.set_is_replaceable(options.is_replaceable);
  request.mutable_tables()->Assign(tables.begin(), tables.end());
  request.set_own_arrays(own_arrays);
  if (options.local_steps != nullptr) *request.mutable_local_steps() = *options.local_steps;
  request.set_processes(options.processes);
  request.set_host(host);
  const absl::Duration interval = absl::Seconds(job.membership().heartbeat_seconds());
  // A lost worker's lease runs from the answer to its last heartbeat. The coordinator keeps that
  // answer back for up to one interval. This worker's next request comes up to one interval later.
  const absl::Duration patience = absl::Seconds(job.membership().lease_seconds()) + 2 * interval;
  absl::Time begin = clock.Now();
  bool has_told = false;
  while (true) {
    const absl::Time asked_at = clock.Now();
    if (options.end != nullptr && options.end->is_asked()) {
      return absl::CancelledError("was asked to end before it had a place in the job");
    }
    const absl::StatusOr<v1::RegisterReply> reply = AwaitReply(coordinator, request, clock);
    if (reply.ok() && reply->is_early()) {
      SleepUntil(clock, clock.Now() + TimeUntilTurn(*options.rank, reply->id(), interval));
      continue;
    }
    if (reply.ok()) return WorkerId(reply->id());
    if (!absl::IsResourceExhausted(reply.status())) return reply.status();
    if (clock.Now() - asked_at >= kLateAnswer) begin = clock.Now();
    if (clock.Now() - begin >= patience) {
      return absl::ResourceExhaustedError(
          absl::StrCat("has waited ", absl::ToDoubleSeconds(patience),
                       " s for the place of a lost worker; its lease would have run out by now: ",
                       reply.status().message()));
    }
    if (!std::exchange(has_told, true)) {
      LOG(INFO) << "waits up to " << patience
                << " for the place of a lost worker: " << reply.status().message();
    }
    const absl::Time now = clock.Now();
    SleepUntil(clock, now + TimeUntilNextQuestion(now - begin, interval));
  }
}

absl::Status Worker::Run() {
  CoordinatorEndpoint& coordinator = *options_.coordinator;
  Clock& clock = *options_.clock;
  ASSIGN_OR_RETURN(const v1::GetJobReply job, AwaitReply(coordinator, v1::GetJobRequest(), clock));
  options_.on_readiness(absl::UnavailableError("reads its data"));
  absl::StatusOr<JobSetup> setup = options_.prepare(job.job(), &clock);
  if (!setup.ok()) {
    ReportEarlyFailure(coordinator, v1::HeartbeatRequest::WORKER, options_.incarnation,
                       setup.status(), clock);
    return setup.status();
  }
  // No failure to report: a refused worker is no member.
  options_.on_readiness(absl::UnavailableError("waits for a place in the job"));
  const OwnState* const own_state = setup->engine->own_state();
  WorkerId id;
  if (options_.part_of.has_value()) {
    id = options_.part_of->worker;
  } else {
    ASSIGN_OR_RETURN(id,
                     RegisterWorker(job.job(), options_.incarnation, setup->engine->tables(),
                                    own_state == nullptr ? 0 : own_state->arrays(), options_.host,
                                    coordinator, clock,
                                    {options_.rank, options_.end, setup->engine->is_replaceable(),
                                     setup->engine->local_steps(), options_.processes}));
  }
  const MetricsSources::Registration info =
      AddMemberInfo(options_.metrics, "worker", id.value(), job.job().name());
  if (options_.end != nullptr) options_.end->Await();
  options_.on_readiness(absl::UnavailableError("waits for all members of the job"));
  const absl::Status status = WithAdvice(Work(id, job, *setup), job.job());
  options_.on_readiness(absl::UnavailableError("the job has ended"));
  const bool came_after_end = setup->engine->came_after_end();
  const bool has_left = absl::IsCancelled(status) && !came_after_end && options_.end != nullptr &&
                        options_.end->is_asked();
  if (!status.ok() && !has_left) {
    if (came_after_end) LOG(INFO) << "leaves: " << status.message();
    ReportFailure(coordinator, v1::HeartbeatRequest::WORKER, id.value(), options_.incarnation,
                  status, clock, came_after_end,
                  options_.part_of.has_value() ? options_.part_of->part : 0);
  }
  return status;
}

absl::Status Worker::Work(WorkerId id, const v1::GetJobReply& job, JobSetup& setup) {
  SetLogId(id.value());
  options_.on_registered(id);
  if (setup.on_registered) setup.on_registered(id);
  LOG(INFO) << "registered as worker " << id << "; computes on " << setup.engine->device_name();
  if (setup.sampler.has_value()) {
    LOG(INFO) << setup.data.train.size() << " training and " << setup.data.test.size()
              << " test samples";
  }

  if (options_.tracer != nullptr) {
    options_.tracer->NameProcess(absl::StrCat("worker ", id.value()),
                                 /*rank=*/static_cast<int>(id.value()));
  }

  TrainingSession::Options session;
  session.clock = options_.clock;
  session.coordinator = options_.coordinator;
  session.worker = id;
  session.incarnation = options_.incarnation;
  session.part = options_.part_of.has_value() ? options_.part_of->part : 0;
  session.job = &job;
  session.setup = &setup;
  session.connect = [this, &job](ServerId server, const ServerAddress& address) {
    return options_.connect(job.job(), server, address);
  };
  if (options_.wrap) {
    session.wrap = [this, &job](std::unique_ptr<ParameterEndpoint> exchanges) {
      return options_.wrap(job.job(), std::move(exchanges));
    };
  }
  session.on_view = std::move(options_.on_view);
  session.on_training = [this] { options_.on_readiness(absl::OkStatus()); };
  session.transport = options_.transport;
  session.coordinator_last_away = options_.coordinator_last_away;
  session.tracer = options_.tracer;
  session.metrics = options_.metrics;
  session.end = options_.end;
  return TrainingSession(std::move(session)).Run();
}

}  // namespace capstan
