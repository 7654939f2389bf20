// gloo_allreduce: times sums of float32 by Gloo, between processes of this machine over TCP.
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <stdlib.h>

#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "common/base/program.h"
#include "common/base/status_macros.h"
#include "tests/benchmark/step/allreduce_load.h"
#include "tests/process/child_results.h"
#include "tests/process/forked_process.h"
#include "tests/process/shared_barrier.h"

ABSL_FLAG(uint64_t, bytes, 64 << 20, "bytes of float32 of each process");
ABSL_FLAG(int, processes, 2, "number of processes");
ABSL_FLAG(int, steps, 20, "timed all-reduces, after 3 others");
ABSL_FLAG(std::string, algorithm, "ring", "ring (as in PyTorch), ring_chunked or halving_doubling");

namespace capstan {
namespace {

using Parent = ForkedProcess::Parent;
using ContextPtr = std::shared_ptr<gloo::rendezvous::Context>;

AllreduceLoad LoadOfFlags() {
  AllreduceLoad load;
  load.bytes = absl::GetFlag(FLAGS_bytes);
  load.num_processes = absl::GetFlag(FLAGS_processes);
  load.steps = absl::GetFlag(FLAGS_steps);
  return load;
}

ContextPtr Connect(int rank, const std::string& folder) {
  gloo::rendezvous::FileStore store(folder);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, absl::GetFlag(FLAGS_processes));
  std::shared_ptr<gloo::transport::Device> device =
      gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr("127.0.0.1"));
  context->connectFullMesh(store, device);
  return context;
}

void Ring(const ContextPtr& context, absl::Span<float> values) {
  using Sum = void (*)(void*, const void*, const void*, size_t);
  gloo::AllreduceOptions options(context);
  options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
  options.setOutput(values.data(), values.size());
  options.setReduceFunction(static_cast<Sum>(&gloo::sum<float>));
  gloo::allreduce(options);
}

// An algorithm with its memory bound to it: the memory is always the same.
std::unique_ptr<gloo::Algorithm> BoundAlgorithm(const ContextPtr& context,
                                                absl::Span<float> values) {
  const std::vector<float*> pointers = {values.data()};
  const int size = static_cast<int>(values.size());
  if (absl::GetFlag(FLAGS_algorithm) == "ring_chunked") {
    return std::make_unique<gloo::AllreduceRingChunked<float>>(context, pointers, size);
  }
  return std::make_unique<gloo::AllreduceHalvingDoubling<float>>(context, pointers, size);
}

absl::StatusOr<StepTimes> Reduce(int rank, const std::string& folder, SharedBarrier* barrier) {
  const ContextPtr context = Connect(rank, folder);
  const bool is_ring = absl::GetFlag(FLAGS_algorithm) == "ring";
  std::unique_ptr<gloo::Algorithm> bound;
  absl::StatusOr<StepTimes> times = RunAllreduces(
      LoadOfFlags(), rank, [barrier] { barrier->Wait(); },
      [&](absl::Span<float> values) {
        if (is_ring) return Ring(context, values);
        // Made in the first step, outside of the timed ones.
        if (bound == nullptr) bound = BoundAlgorithm(context, values);
        bound->run();
      });
  // Connections stay until all processes are done.
  if (times.ok()) barrier->Wait();
  return times;
}

// One process. Tells the parent its times.
absl::Status RunProcess(int rank, const std::string& folder, SharedBarrier* barrier,
                        Parent& parent) {
  try {
    ASSIGN_OR_RETURN(const StepTimes times, Reduce(rank, folder, barrier));
    parent.WriteLine(FormatStepTimes(times));
    return absl::OkStatus();
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("Gloo: ", error.what()));
  }
}

absl::Status CheckFlags() {
  const std::string algorithm = absl::GetFlag(FLAGS_algorithm);
  if (algorithm != "ring" && algorithm != "ring_chunked" && algorithm != "halving_doubling") {
    return absl::InvalidArgumentError(
        "--algorithm: expected ring, ring_chunked or halving_doubling, got " + algorithm);
  }
  if (absl::GetFlag(FLAGS_processes) < 2) {
    return absl::InvalidArgumentError("--processes: expected 2 or more");
  }
  return LoadOfFlags().Check();
}

absl::StatusOr<double> MeasureIn(const std::string& folder) {
  SharedBarrier barrier(absl::GetFlag(FLAGS_processes));
  std::vector<std::unique_ptr<ForkedProcess>> processes;
  for (int rank = 0; rank < absl::GetFlag(FLAGS_processes); ++rank) {
    processes.push_back(StartChild(
        [&, rank](Parent& parent) { return RunProcess(rank, folder, &barrier, parent); }));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> lines, ChildResults(processes));
  std::vector<StepTimes> times;
  for (const std::string& line : lines) {
    ASSIGN_OR_RETURN(StepTimes of_process, ParseStepTimes(line));
    times.push_back(std::move(of_process));
  }
  return MedianStepMilliseconds(times);
}

absl::Status Run() {
  std::string folder = std::filesystem::temp_directory_path() / "gloo_allreduce_XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) {
    return absl::UnavailableError("cannot make a temporary folder " + folder);
  }
  const absl::StatusOr<double> step_ms = MeasureIn(folder);
  std::filesystem::remove_all(folder);
  RETURN_IF_ERROR(step_ms.status());
  std::cout << nlohmann::json{{"step_ms", *step_ms}}.dump() << std::endl;
  return absl::OkStatus();
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  capstan::InitProgram(argv[0],
                       "times all-reduces of float32 by Gloo, between processes over TCP; prints "
                       "the median as JSON.\n"
                       "  gloo_allreduce [--processes=2] [--bytes=67108864] [--algorithm=ring]");
  absl::Status status = capstan::ParseProgramFlags({argv, argv + argc});
  if (status.ok()) status = capstan::CheckFlags();
  if (!status.ok()) capstan::EndProgram("gloo_allreduce", status, /*is_usage_error=*/true);
  capstan::EndProgram("gloo_allreduce", capstan::Run());
}
