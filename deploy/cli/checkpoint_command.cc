#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/base/printable_text.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/membership/coordinator_endpoint.h"
#include "common/membership/grpc_coordinator_client.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/text/number_text.h"
#include "proto/checkpoint.pb.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/read_checkpoint.h"
#include "server/slice/shard_snapshot.h"

namespace capstan {
namespace {

// "step 150 of 400, job digits, 1.2 MB in 64 shards"
std::string Description(const v1::CheckpointManifest& manifest) {
  double bytes = 0;
  for (const v1::ShardFile& file : manifest.files()) bytes += static_cast<double>(file.bytes());
  return absl::StrCat(StepText(manifest.step(), manifest.steps_total()), ", job ",
                      manifest.job().name(), ", ", BytesText(bytes), " in ", manifest.files_size(),
                      " shards");
}

// A checkpoint's line in the list.
std::string LineOf(const std::string& dir, const CheckpointName& checkpoint) {
  if (!checkpoint.is_complete) return absl::StrCat(checkpoint.name, "  incomplete");
  const auto manifest = ReadManifest(absl::StrCat(dir, "/", checkpoint.name));
  return absl::StrCat(checkpoint.name, "  ",
                      manifest.ok()
                          ? Description(*manifest)
                          : absl::StrCat("cannot be used: ", manifest.status().message()));
}

absl::Status Verify(const std::string& path, std::ostream& out) {
  ASSIGN_OR_RETURN(const v1::CheckpointManifest manifest, ReadManifest(path));
  size_t slices = 0;
  RETURN_IF_ERROR(ReadAllShards(path, manifest, [&slices](const ShardSnapshot& shard) {
    slices += shard.slices.size();
    return absl::OkStatus();
  }));
  out << PrintableText(path) << ": " << Description(manifest)
      << ": the manifest, the sums of all files and all " << slices << " slices of "
      << manifest.tables_size() << " tables are right" << std::endl;
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteCheckpointCommand(const std::string& address, const SecurityPointer& security,
                                    Clock* clock, std::ostream& out) {
  // A coordinator that cannot be reached is given up after this time. A checkpoint may take longer.
  constexpr absl::Duration kDeadline = absl::Seconds(2);
  CoordinatorOptions options = {address, kDeadline};
  options.is_member = false;
  options.security = security;
  ASSIGN_OR_RETURN(const std::unique_ptr<CoordinatorEndpoint> coordinator,
                   ConnectToCoordinator(std::move(options), clock, Random(SystemRandom())));
  ASSIGN_OR_RETURN(const v1::CheckpointReply reply,
                   AwaitReply(*coordinator, v1::CheckpointRequest(), *clock));
  out << "step " << reply.step() << ": " << PrintableText(reply.path()) << " is complete"
      << std::endl;
  return absl::OkStatus();
}

absl::Status ListCheckpointsCommand(const std::string& dir, std::ostream& out) {
  ASSIGN_OR_RETURN(const std::vector<CheckpointName> all, ListCheckpoints(dir));
  if (all.empty() && ReadManifest(dir).ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(dir, ": expected a folder with checkpoints, got a checkpoint; --verify=", dir,
                     " checks it"));
  }
  for (const CheckpointName& checkpoint : all) {
    const std::string line = LineOf(dir, checkpoint);
    // A job that runs may have removed it meanwhile.
    if (checkpoint.is_complete && IsRemoved(absl::StrCat(dir, "/", checkpoint.name))) continue;
    out << PrintableText(line) << std::endl;
  }
  if (all.empty()) out << PrintableText(dir) << " has no checkpoints" << std::endl;
  return absl::OkStatus();
}

absl::Status VerifyCheckpointsCommand(const std::string& path, std::ostream& out) {
  ASSIGN_OR_RETURN(const std::vector<std::string> checkpoints, CompleteCheckpoints(path));
  std::vector<std::string> errors;
  for (const std::string& checkpoint : checkpoints) {
    const absl::Status status = Verify(checkpoint, out);
    // A job that runs removes old checkpoints.
    if (checkpoint != path && IsRemoved(checkpoint)) continue;
    if (!status.ok()) errors.emplace_back(status.message());
  }
  if (errors.empty()) return absl::OkStatus();
  return absl::DataLossError(absl::StrJoin(errors, "\n"));
}

}  // namespace capstan
