// mpi_allreduce: times sums of float32 between the processes of mpirun.
#include <mpi/mpi.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "common/base/program.h"
#include "common/base/status_macros.h"
#include "tests/benchmark/step/allreduce_load.h"

ABSL_FLAG(uint64_t, bytes, 64 << 20, "bytes of float32 of each process");
ABSL_FLAG(int, steps, 20, "timed all-reduces, after 3 others");

namespace capstan {
namespace {

AllreduceLoad LoadOfFlags() {
  AllreduceLoad load;
  load.bytes = absl::GetFlag(FLAGS_bytes);
  load.steps = absl::GetFlag(FLAGS_steps);
  return load;
}

// An error of MPI ends all processes, by its default.
absl::Status Run() {
  AllreduceLoad load = LoadOfFlags();
  int rank = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &load.num_processes);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  ASSIGN_OR_RETURN(const StepTimes times, RunAllreduces(
                                              load, rank, [] { MPI_Barrier(MPI_COMM_WORLD); },
                                              [](absl::Span<float> values) {
                                                MPI_Allreduce(MPI_IN_PLACE, values.data(),
                                                              static_cast<int>(values.size()),
                                                              MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
                                              }));
  StepTimes slowest(times.size());
  MPI_Reduce(times.data(), slowest.data(), static_cast<int>(times.size()), MPI_DOUBLE, MPI_MAX,
             /*root=*/0, MPI_COMM_WORLD);
  if (rank != 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const double step_ms, MedianStepMilliseconds({slowest}));
  std::cout << nlohmann::json{{"step_ms", step_ms}}.dump() << std::endl;
  return absl::OkStatus();
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  capstan::InitProgram(argv[0],
                       "times all-reduces of float32 between the processes of mpirun; prints the "
                       "median as JSON.\n"
                       "  mpirun -n 2 mpi_allreduce [--bytes=67108864]");
  absl::Status status = capstan::ParseProgramFlags({argv, argv + argc});
  if (status.ok()) status = capstan::LoadOfFlags().Check();
  if (!status.ok()) capstan::EndProgram("mpi_allreduce", status, /*is_usage_error=*/true);
  MPI_Init(nullptr, nullptr);
  status = capstan::Run();
  if (status.ok()) {
    MPI_Finalize();
  } else {
    std::cerr << "mpi_allreduce: " << status.message() << std::endl;
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  capstan::EndProgram("mpi_allreduce", status);
}
