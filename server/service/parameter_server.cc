#include "server/service/parameter_server.h"

#include <glog/logging.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/end_request.h"
#include "common/base/log_format.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/job/job_properties.h"
#include "common/membership/coordinator_endpoint.h"
#include "common/membership/member_agent.h"
#include "common/membership/view_watch.h"
#include "common/optimizer/optimizer.h"
#include "common/routing/job_view.h"
#include "server/checkpoint/manifest.h"
#include "server/consistency/update_scale.h"
#include "server/service/server_metrics.h"
#include "server/service/shard_host_options.h"

namespace capstan {
namespace {

// Servers come after the workers in a trace. A worker's rank is its number.
constexpr int kFirstServerRank = 1'000'000;

// Until a server asks again for the place of a lost one.
constexpr absl::Duration kBetweenQuestions = absl::Milliseconds(100);

absl::Status LeftError() {
  return absl::CancelledError(
      absl::StrCat(kAskedToEnd, ", and has left: other servers have its shards"));
}

}  // namespace

absl::Status ParameterServer::Run(ListenFunction listen) {
  CoordinatorEndpoint& coordinator = *options_.coordinator;
  ASSIGN_OR_RETURN(const v1::GetJobReply job,
                   AwaitReply(coordinator, v1::GetJobRequest(), *options_.clock));
  const absl::StatusOr<ServerId> id = ListenAndRegister(job.job(), listen);
  if (!id.ok()) {
    ReportEarlyFailure(coordinator, v1::HeartbeatRequest::SERVER, options_.incarnation, id.status(),
                       *options_.clock);
    return id.status();
  }
  if (options_.tracer != nullptr) {
    options_.tracer->NameProcess(absl::StrCat("server ", id->value()),
                                 kFirstServerRank + static_cast<int>(id->value()));
  }
  const MetricsSources::Registration info =
      AddMemberInfo(options_.metrics, "server", id->value(), job.job().name());
  if (options_.end != nullptr) options_.end->Await();
  options_.on_readiness(absl::UnavailableError("waits for all members of the job"));
  absl::Status status = Follow(job, *id);
  options_.on_readiness(absl::UnavailableError("the job has ended"));
  if (!status.ok() && !(HasLeft() && absl::IsCancelled(status))) {
    ReportFailure(coordinator, v1::HeartbeatRequest::SERVER, id->value(), options_.incarnation,
                  status, *options_.clock);
  }
  return status;
}

absl::StatusOr<ServerId> ParameterServer::ListenAndRegister(const v1::JobSpec& job,
                                                            ListenFunction listen) {
  ASSIGN_OR_RETURN(const ServerAddress address, listen(job));
  v1::RegisterServerRequest request;
  request.set_incarnation(options_.incarnation.value());
  request.set_address(address.grpc);
  request.set_host(options_.host);
  ASSIGN_OR_RETURN(const v1::RegisterReply registered, Register(request, job.membership()));
  SetLogId(registered.id());
  LOG(INFO) << "registered as server " << registered.id() << " at " << address.grpc;
  return ServerId(registered.id());
}

absl::StatusOr<v1::RegisterReply> ParameterServer::Register(
    const v1::RegisterServerRequest& request, const v1::MembershipSpec& membership) {
  absl::Time begin = options_.clock->Now();
  bool has_told = false;
  // As of a worker: a lost server's lease runs from the answer to its last heartbeat.
  const absl::Duration patience =
      absl::Seconds(membership.lease_seconds() + 2 * membership.heartbeat_seconds());
  while (true) {
    const absl::Time asked_at = options_.clock->Now();
    absl::StatusOr<v1::RegisterReply> reply =
        AwaitReply(*options_.coordinator, request, *options_.clock);
    const absl::Time now = options_.clock->Now();
    if (now - asked_at >= kLateAnswer) begin = now;
    if (!absl::IsResourceExhausted(reply.status()) || now - begin >= patience) return reply;
    if (!std::exchange(has_told, true)) {
      LOG(INFO) << "waits up to " << patience
                << " for the place of a lost server: " << reply.status().message();
    }
    SleepUntil(*options_.clock, now + kBetweenQuestions);
  }
}

absl::Status ParameterServer::Follow(const v1::GetJobReply& job, ServerId id) {
  ViewWatch watch(options_.clock);
  std::atomic<uint64_t> acted_on = 0;
  MemberAgent::Options member;
  member.role = v1::HeartbeatRequest::SERVER;
  member.id = id.value();
  member.incarnation = options_.incarnation;
  member.on_view = [&watch](const v1::JobView& view) { watch.OnView(view); };
  member.acted_on = [&acted_on] { return acted_on.load(); };
  member.report = [this, &watch](v1::HeartbeatRequest& request) {
    Report(request);
    if (options_.end == nullptr || !options_.end->is_asked()) return;
    request.set_is_leaving(has_copies_);
    if (has_copies_) {
      LOG_FIRST_N(INFO, 1) << kAskedToEnd << ": leaves once each of its shards has a whole copy "
                           << "elsewhere; a second signal ends it at once";
      return;
    }
    watch.OnLost(absl::CancelledError(
        absl::StrCat(kAskedToEnd,
                     ", and its shards are lost: go on from a checkpoint, or start the job again; "
                     "with --replicas=2 the job would go on")));
  };
  // ABORTED: there is nobody left to tell.
  member.on_lost = [this, &watch](const absl::Status& status) {
    const bool is_refused = absl::IsFailedPrecondition(status);
    watch.OnLost(is_refused && HasLeft() ? LeftError() : absl::AbortedError(status.message()));
  };
  MemberAgent agent(std::move(member), *options_.coordinator, *options_.clock);
  report_now_ = agent.Reporter();
  agent.Start();
  const absl::Status status = FollowViews(job, id, watch, acted_on);
  if (writer_ != nullptr) writer_->Stop();
  // Workers may be told to ask another server, and readers wait for copies that are gone.
  if (has_copies_) host_->End(absl::UnavailableError("the server has ended"));
  return status;
}

absl::Status ParameterServer::FollowViews(const v1::GetJobReply& job, ServerId id, ViewWatch& watch,
                                          std::atomic<uint64_t>& acted_on) {
  while (true) {
    ASSIGN_OR_RETURN(const v1::JobView view, watch.WaitFor([&acted_on](const v1::JobView& next) {
      return next.version() > acted_on;
    }));
    if (view.phase() == v1::DONE) return absl::OkStatus();
    if (!IsLive(view, id)) {
      if (HasLeft()) return LeftError();
      return absl::AbortedError(
          "the coordinator has taken this server for lost, and others have its shards; see its "
          "log");
    }
    // Heartbeats go on meanwhile.
    RETURN_IF_ERROR(Apply(job, id, view));
    acted_on = view.version();
    report_now_();
  }
}

bool ParameterServer::IsLive(const v1::JobView& view, ServerId id) const {
  const v1::ServerInfo& self = view.servers(static_cast<int>(id.value()));
  return self.is_live() && Incarnation(self.incarnation()) == options_.incarnation;
}

bool ParameterServer::HasLeft() const {
  return has_copies_ && options_.end != nullptr && options_.end->is_asked();
}

absl::Status ParameterServer::Apply(const v1::GetJobReply& job, ServerId id,
                                    const v1::JobView& view) {
  if (view.epoch() == 0 || view.phase() == v1::FAILED) return absl::OkStatus();
  if (host_ == nullptr) {
    options_.on_readiness(absl::UnavailableError("makes its shards"));
    RETURN_IF_ERROR(CreateShards(job, id, view));
    options_.on_readiness(absl::OkStatus());
  }
  credit_bytes_ = view.has_schedule() ? view.schedule().credit_bytes()
                                      : SchedulerOf(job.job(), view).credit_bytes();
  has_copies_ = view.copies_size() > 0;
  RETURN_IF_ERROR(FollowRoles(id, view));
  host_->SetEpoch(Epoch(view.epoch()));
  host_->SetLiveWorkers(LiveWorkers(view));
  FollowCopies(job, id, view);
  RETURN_IF_ERROR(FollowPeriods(view));
  FollowCheckpoint(view.checkpoint());
  RETURN_IF_ERROR(HoldBack(view));
  next_steps_.Follow(view, *host_, report_now_);
  return FollowSaving(view);
}

absl::Status ParameterServer::CreateShards(const v1::GetJobReply& job, ServerId id,
                                           const v1::JobView& view) {
  ASSIGN_OR_RETURN(ShardHost::Options options, ShardHostOptions(job, id, view));
  options.incarnation = options_.incarnation;
  options.interruption = options_.interruption;
  options.clock = options_.clock;
  ShardHost::Source source;
  // A server that comes later gets copies only. What the job began with may be gone.
  const bool begins = view.phase() == v1::PLACING;
  ASSIGN_OR_RETURN(JobModels models, JobModels::Open(job, view, /*has_initial=*/begins));
  source.initial = models.initial();
  models_.emplace(std::move(models));
  RETURN_IF_ERROR(OpenCheckpoints(job, view));
  if (begins && !job.restore().empty()) RETURN_IF_ERROR(OpenRestored(job, source));
  LOG(INFO) << "creating " << options.shards.size() << " of " << options.shard_count
            << " shards, epoch " << options.epoch
            << (source.restored == nullptr ? "" : absl::StrCat(", from ", job.restore()));
  const absl::Status created = CreateHost(std::move(options), source, view);
  RETURN_IF_ERROR(source.restored == nullptr ? created : Annotate(created, "--restore"));
  periods_acted_on_ = view.consistency_size();
  if (options_.metrics != nullptr) {
    host_metrics_ = options_.metrics->Add(
        [host = host_.get(), workers = job.job().cluster().num_workers()](MetricsPage& page) {
          AddShardMetrics(host->counts(), host->non_finite_pushes(), workers, page);
        });
  }
  return absl::OkStatus();
}

absl::Status ParameterServer::OpenCheckpoints(const v1::GetJobReply& job, const v1::JobView& view) {
  const std::string& dir = job.job().checkpoint().dir();
  if (dir.empty() && job.restore().empty()) return absl::OkStatus();
  if (options_.open_storage != nullptr) {
    storage_ = options_.open_storage();
  } else {
    std::vector<std::string> tables;
    for (const v1::TableSpec& table : view.tables()) tables.push_back(table.name());
    absl::StatusOr<std::unique_ptr<ShardStorage>> storage =
        OpenShardFolder(dir, job.checkpoint_token(), std::move(tables));
    RETURN_IF_ERROR(Annotate(storage.status(), "--checkpoint_dir"));
    storage_ = *std::move(storage);
  }
  CheckpointWriter::Options writer;
  writer.clock = options_.clock;
  writer.storage = storage_.get();
  writer.on_end = [this] { report_now_(); };
  writer.spawn = options_.spawn;
  writer_ = std::make_unique<CheckpointWriter>(std::move(writer));
  return absl::OkStatus();
}

absl::Status ParameterServer::OpenRestored(const v1::GetJobReply& job, ShardHost::Source& source) {
  const absl::StatusOr<v1::CheckpointManifest> manifest = storage_->ReadManifest(job.restore());
  RETURN_IF_ERROR(Annotate(manifest.status(), "--restore"));
  if (HashManifest(*manifest) != job.restore_xxh3()) {
    return absl::FailedPreconditionError(
        absl::StrCat("--restore: ", job.restore(),
                     ": expected the manifest that the coordinator has read, got another; choose a "
                     "folder that the coordinator and all servers share"));
  }
  source.restored = [this, path = job.restore(),
                     files = manifest->files()](ShardId shard) -> absl::StatusOr<ShardSnapshot> {
    for (const v1::ShardFile& file : files) {
      if (ShardId(file.shard()) == shard) return storage_->Read(path, file);
    }
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a file of shard ", shard.value(), ", got none"));
  };
  return absl::OkStatus();
}

void ParameterServer::Report(v1::HeartbeatRequest& request) {
  if (serving_ != nullptr) {
    v1::ServerLoad& load = *request.mutable_load();
    load.set_exchanges(static_cast<uint64_t>(host_->num_exchanges()));
    load.set_seconds(absl::ToDoubleSeconds(options_.clock->Now() - serving_since_));
  }
  next_steps_.Write(&request);
  MutexLock lock(&mu_);
  if (has_copies_) copy_reports_.Write(*host_, options_.clock->Now(), request.mutable_copies());
  if (held_step_.has_value()) *request.mutable_held_step() = *held_step_;
  if (checkpoint_.number() == 0) return;
  *request.mutable_checkpoint() = checkpoint_;
  const v1::CheckpointPart part = writer_->part();
  if (part.number() == checkpoint_.number()) request.mutable_checkpoint()->MergeFrom(part);
}

absl::Status ParameterServer::CreateHost(ShardHost::Options options,
                                         const ShardHost::Source& source, const v1::JobView& view) {
  absl::StatusOr<std::unique_ptr<ShardHost>> host = ShardHost::Create(std::move(options), source);
  if (absl::IsResourceExhausted(host.status())) {
    return absl::ResourceExhaustedError(
        absl::StrCat("parameters of the shards: ", host.status().message(),
                     "; use more servers, or machines with more memory"));
  }
  RETURN_IF_ERROR(host.status());
  host_ = *std::move(host);
  serving_since_ = options_.clock->Now();
  for (const v1::TableSpec& table : view.tables()) {
    layer_of_table_.push_back(static_cast<int>(table.layer()));
  }
  if (options_.tracer == nullptr) {
    serving_ = host_.get();
    return absl::OkStatus();
  }
  std::vector<TracingEndpoint::Table> tables;
  for (const v1::TableSpec& table : view.tables()) {
    tables.push_back({table.name(), static_cast<int>(table.layer())});
  }
  traced_host_ = std::make_unique<TracingEndpoint>(options_.tracer, std::move(tables), host_.get());
  serving_ = traced_host_.get();
  return absl::OkStatus();
}

int ParameterServer::LayerOf(TableId table) const {
  const bool is_known = serving_ != nullptr && table.value() < layer_of_table_.size();
  return is_known ? layer_of_table_[table.value()] : 0;
}

void ParameterServer::Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                               ReplyCallback done) {
  if (auto* probe = std::get_if<Probe>(&request.purpose)) {
    delivered();
    ExchangeReply reply;
    reply.values = std::move(probe->bytes);
    return done(std::move(reply));
  }
  ParameterEndpoint* const host = serving_;
  if (host != nullptr)
    return host->Exchange(std::move(request), std::move(delivered), std::move(done));
  delivered();
  done(ErrorReply(absl::UnavailableError("the server has not been given its shards yet")));
}

void ParameterServer::Records::Exchange(ExchangeRequest&& request, DeliveredCallback delivered,
                                        ReplyCallback done) {
  delivered();
  // It is there once shards are.
  if (server_.serving_ == nullptr) {
    return done(ErrorReply(absl::UnavailableError("the server has not been given its shards yet")));
  }
  done(server_.host_->TakeRecord(request));
}

void ParameterServer::ReadRows(const v1::ReadRowsRequest& request, ReadCallback done) {
  if (serving_ == nullptr) {
    return done(absl::UnavailableError("the server has not been given its shards yet"));
  }
  if (request.keys_size() > kMostReadKeys) {
    return done(absl::InvalidArgumentError(
        absl::StrCat("expected at most ", kMostReadKeys, " keys, got ", request.keys_size())));
  }
  const std::vector<uint64_t> keys(request.keys().begin(), request.keys().end());
  host_->ReadRows(request.table(), keys,
                  [done = std::move(done)](
                      const absl::StatusOr<std::vector<std::vector<float>>>& rows) mutable {
                    if (!rows.ok()) return done(rows.status());
                    v1::ReadRowsReply reply;
                    for (const std::vector<float>& row : *rows) {
                      reply.add_rows()->mutable_values()->Add(row.begin(), row.end());
                    }
                    done(std::move(reply));
                  });
}

}  // namespace capstan
