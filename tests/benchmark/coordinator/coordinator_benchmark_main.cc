// coordinator_benchmark: what a job of many members costs its coordinator, and how fast all of them
// learn of a lost server. The coordinator is the real program. The members are simulated, in this
// process.
#include <sys/resource.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/program.h"
#include "common/base/real_clock.h"
#include "common/base/status_macros.h"
#include "common/transport/grpc/grpc_setup.h"
#include "proto/coordinator_service.pb.h"
#include "tests/benchmark/common/benchmark_figures.h"
#include "tests/benchmark/coordinator/coordinator_program.h"
#include "tests/benchmark/coordinator/seen_views.h"
#include "tests/benchmark/coordinator/simulated_member.h"

ABSL_FLAG(int, members, 1000, "servers and workers of the job together");
ABSL_FLAG(int, servers, 0, "servers among them; 0: a tenth, and at least 2 more than --losses");
ABSL_FLAG(int, shards, 0, "shards of the job; 0: four for each server, and at least 64");
ABSL_FLAG(double, seconds, 20, "length of the steady state that is measured");
ABSL_FLAG(int, losses, 5, "servers that are lost, one after the other");
ABSL_FLAG(std::string, state, "", "passed on to the coordinator; empty: it is not");

namespace capstan {
namespace {

using Seen = SeenViews::Seen;

constexpr absl::Duration kPatience = absl::Minutes(5);

int NumServers() {
  if (absl::GetFlag(FLAGS_servers) > 0) return absl::GetFlag(FLAGS_servers);
  return std::max(absl::GetFlag(FLAGS_members) / 10, absl::GetFlag(FLAGS_losses) + 2);
}

int NumShards() {
  if (absl::GetFlag(FLAGS_shards) > 0) return absl::GetFlag(FLAGS_shards);
  return std::max(4 * NumServers(), 64);
}

// All members come from one host, so the coordinator would take only a hundred a second.
std::vector<std::string> CoordinatorFlags() {
  std::vector<std::string> flags = {
      "--model=program",
      "--transport=grpc",
      "--replicas=2",
      absl::StrCat("--num_servers=", NumServers()),
      absl::StrCat("--num_workers=", absl::GetFlag(FLAGS_members) - NumServers()),
      absl::StrCat("--shard_count=", NumShards()),
      absl::StrCat("--field=limits.registrations_per_second=", absl::GetFlag(FLAGS_members)),
  };
  if (!absl::GetFlag(FLAGS_state).empty()) {
    flags.push_back("--state=" + absl::GetFlag(FLAGS_state));
  }
  return flags;
}

// A table with some slices for each shard.
std::vector<v1::TableSpec> Tables() {
  v1::TableSpec table;
  table.set_name("weight");
  table.add_shape(static_cast<uint64_t>(NumShards()));
  table.add_shape(1 << 20);
  return {table};
}

bool HasWholeCopies(const Seen& seen) { return seen.copies_are_whole; }

absl::Duration OwnCpuTime() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return absl::DurationFromTimeval(usage.ru_utime) + absl::DurationFromTimeval(usage.ru_stime);
}

// The coordinator, and the members in the order of their start: servers first.
class Job {
 public:
  static absl::StatusOr<std::unique_ptr<Job>> Start(Clock* clock) {
    ASSIGN_OR_RETURN(std::unique_ptr<CoordinatorProgram> coordinator,
                     CoordinatorProgram::Start(CoordinatorFlags()));
    return std::unique_ptr<Job>(new Job(std::move(coordinator), clock));
  }

  // From the first registration until all members train.
  absl::Status Register(BenchmarkFigures& figures);
  absl::Status MeasureSteadyState(BenchmarkFigures& figures);
  absl::Status MeasureLosses(BenchmarkFigures& figures);

 private:
  // From the end of this server's connection until the last member knows of it.
  absl::StatusOr<BenchmarkFigures> MeasureLoss(int number);

  Job(std::unique_ptr<CoordinatorProgram> coordinator, Clock* clock)
      : clock_(*clock),
        seen_(static_cast<size_t>(absl::GetFlag(FLAGS_members)), clock),
        coordinator_(std::move(coordinator)) {}

  Clock& clock_;
  SeenViews seen_;
  std::vector<std::unique_ptr<SimulatedMember>> members_;
  const std::unique_ptr<CoordinatorProgram> coordinator_;  // ends before the members
};

absl::Status Job::Register(BenchmarkFigures& figures) {
  const auto num_members = static_cast<size_t>(absl::GetFlag(FLAGS_members));
  const absl::Time begin = clock_.Now();
  const absl::Duration cpu = coordinator_->CpuTime();
  for (size_t index = 0; index < num_members; ++index) {
    SimulatedMember::Options options;
    options.coordinator = coordinator_->address();
    options.index = index;
    options.is_server = index < static_cast<size_t>(NumServers());
    if (!options.is_server) options.tables = Tables();
    options.seen = &seen_;
    options.clock = &clock_;
    members_.push_back(std::make_unique<SimulatedMember>(std::move(options)));
    members_.back()->Start();
  }
  ASSIGN_OR_RETURN(
      const absl::Time training,
      seen_.AwaitAll([](const Seen& seen) { return seen.phase == v1::TRAINING; }, kPatience));
  figures["register_seconds"] = absl::ToDoubleSeconds(training - begin);
  RETURN_IF_ERROR(seen_.AwaitAll(HasWholeCopies, kPatience).status());
  figures["register_cpu_seconds"] = absl::ToDoubleSeconds(coordinator_->CpuTime() - cpu);
  return absl::OkStatus();
}

absl::Status Job::MeasureSteadyState(BenchmarkFigures& figures) {
  const absl::Time begin = clock_.Now();
  const absl::Duration cpu = coordinator_->CpuTime();
  const absl::Duration own_cpu = OwnCpuTime();
  const TcpBytes bytes = coordinator_->BytesOfConnections();
  absl::SleepFor(absl::Seconds(absl::GetFlag(FLAGS_seconds)));
  const absl::Duration time = clock_.Now() - begin;
  const TcpBytes later = coordinator_->BytesOfConnections();
  const double seconds = absl::ToDoubleSeconds(time);
  figures["coordinator_cores"] = absl::FDivDuration(coordinator_->CpuTime() - cpu, time);
  figures["members_cores"] = absl::FDivDuration(OwnCpuTime() - own_cpu, time);
  figures["bytes_per_second_in"] = static_cast<double>(later.sent - bytes.sent) / seconds;
  figures["bytes_per_second_out"] = static_cast<double>(later.received - bytes.received) / seconds;
  figures["coordinator_rss_mb"] = static_cast<double>(coordinator_->MemoryBytes()) / 1e6;
  return absl::OkStatus();
}

absl::StatusOr<BenchmarkFigures> Job::MeasureLoss(int number) {
  const absl::Time begin = clock_.Now();
  const absl::Duration cpu = coordinator_->CpuTime();
  const absl::Duration own_cpu = OwnCpuTime();
  members_[static_cast<size_t>(number)]->Vanish();
  const auto knows = [number](const Seen& seen) {
    return static_cast<int>(seen.servers_lost) > number;
  };
  ASSIGN_OR_RETURN(const absl::Time known, seen_.AwaitAll(knows, kPatience));
  BenchmarkFigures figures;
  figures["loss_known_seconds"] = absl::ToDoubleSeconds(known - begin);
  figures["loss_coordinator_cpu_seconds"] = absl::ToDoubleSeconds(coordinator_->CpuTime() - cpu);
  figures["loss_members_cpu_seconds"] = absl::ToDoubleSeconds(OwnCpuTime() - own_cpu);
  return figures;
}

absl::Status Job::MeasureLosses(BenchmarkFigures& figures) {
  std::vector<BenchmarkFigures> losses;
  double worst = 0;
  for (int number = 0; number < absl::GetFlag(FLAGS_losses); ++number) {
    ASSIGN_OR_RETURN(BenchmarkFigures loss, MeasureLoss(number));
    worst = std::max(worst, loss["loss_known_seconds"].get<double>());
    losses.push_back(std::move(loss));
    // Another loss is survived once all shards have two copies again.
    RETURN_IF_ERROR(seen_.AwaitAll(HasWholeCopies, kPatience).status());
  }
  if (losses.empty()) return absl::OkStatus();
  figures.update(MediansOf(losses));
  figures["loss_known_seconds_worst"] = worst;
  return absl::OkStatus();
}

absl::Status Run() {
  SendGrpcLogsToVlog();
  RealClock clock;
  BenchmarkFigures figures;
  figures["members"] = absl::GetFlag(FLAGS_members);
  figures["servers"] = NumServers();
  figures["shards"] = NumShards();
  ASSIGN_OR_RETURN(const std::unique_ptr<Job> job, Job::Start(&clock));
  RETURN_IF_ERROR(job->Register(figures));
  RETURN_IF_ERROR(job->MeasureSteadyState(figures));
  RETURN_IF_ERROR(job->MeasureLosses(figures));
  std::cout << "capstan_coordinator " << absl::StrJoin(CoordinatorFlags(), " ") << "\n";
  PrintFigures(figures);
  std::cout << figures.dump() << std::endl;
  return absl::OkStatus();
}

absl::Status CheckFlags() {
  const int losses = absl::GetFlag(FLAGS_losses);
  if (losses < 0 || NumServers() < losses + 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("--servers: expected at least 2 more than --losses, got ", NumServers(),
                     " with ", losses, " losses"));
  }
  if (absl::GetFlag(FLAGS_members) <= NumServers()) {
    return absl::InvalidArgumentError(absl::StrCat("--members: expected more than the ",
                                                   NumServers(), " servers, got ",
                                                   absl::GetFlag(FLAGS_members)));
  }
  if (NumShards() < NumServers() || !(absl::GetFlag(FLAGS_seconds) > 0)) {
    return absl::InvalidArgumentError(
        "expected --shards of at least --servers, and --seconds of more than 0");
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  capstan::InitProgram(argv[0],
                       "measures what a job of many members costs its coordinator, and how fast "
                       "all of them learn of a lost server.\n"
                       "  coordinator_benchmark [--members=1000] [--seconds=20] [--servers=N] "
                       "[--state=DIR]");
  absl::Status status = capstan::ParseProgramFlags({argv, argv + argc});
  if (status.ok()) status = capstan::CheckFlags();
  if (!status.ok()) capstan::EndProgram("coordinator_benchmark", status, /*is_usage_error=*/true);
  capstan::EndProgram("coordinator_benchmark", capstan::Run());
}
