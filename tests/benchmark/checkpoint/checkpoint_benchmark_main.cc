// checkpoint_benchmark: how fast checkpoints are written and restored, beside dd, and how much
// longer steps take meanwhile. How long batches of rows take while a sparse table is copied.
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/program.h"
#include "common/base/real_clock.h"
#include "common/base/status_macros.h"
#include "common/transport/grpc/grpc_setup.h"
#include "tests/benchmark/checkpoint/checkpoint_load.h"
#include "tests/benchmark/checkpoint/checkpointed_steps.h"
#include "tests/benchmark/checkpoint/cut_pauses.h"
#include "tests/benchmark/checkpoint/disk_baseline.h"
#include "tests/benchmark/common/benchmark_figures.h"
#include "tests/process/child_results.h"
#include "tests/process/forked_process.h"

ABSL_FLAG(std::string, dir, "",
          "folder for the files; those of this program are removed at the end; empty: a new one in "
          "the current folder");
ABSL_FLAG(uint64_t, bytes, 1'000'000'000,
          "bytes of float32 parameters; a checkpoint has three times as many, for Adam; the disk "
          "needs room for three checkpoints");
ABSL_FLAG(int, repeat, 5, "checkpoints that are written and restored, each beside dd; 0: none");
ABSL_FLAG(int, steps, 500, "steps of the job of which checkpoints are written; 0: no such job");
ABSL_FLAG(std::string, layers, "resnet50", "the job's network, as in capstan run --replay_layers");
ABSL_FLAG(uint64_t, scale, 1, "divides the number of elements of the network's tensors");
ABSL_FLAG(absl::Duration, compute, absl::Milliseconds(250), "computing time of a step of the job");
ABSL_FLAG(int, workers, 2, "workers of the job");
ABSL_FLAG(uint64_t, rows, 0,
          "rows of 16 values, of a table that is cut while batches of it are exchanged; 0: none");
ABSL_FLAG(uint64_t, row_batch, 10'000, "keys of such a batch");
ABSL_FLAG(bool, json, false, "print one JSON object as the last line");

namespace capstan {
namespace {

using Parent = ForkedProcess::Parent;

// A folder for the files of this program. They are removed at the end.
class BenchmarkFolder {
 public:
  static absl::StatusOr<std::unique_ptr<BenchmarkFolder>> Create() {
    std::string path = absl::StrCat(
        absl::GetFlag(FLAGS_dir).empty() ? "." : absl::GetFlag(FLAGS_dir), "/checkpoints-XXXXXX");
    if (mkdtemp(path.data()) != nullptr) return std::make_unique<BenchmarkFolder>(path);
    return absl::InvalidArgumentError(absl::StrCat("--dir: expected a folder in which ", path,
                                                   " can be made, got ", std::strerror(errno)));
  }

  explicit BenchmarkFolder(std::string path) : path_(std::move(path)) {}
  ~BenchmarkFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

double GigabytesPerSecond(uint64_t bytes, absl::Duration time) {
  return static_cast<double>(bytes) / absl::ToDoubleSeconds(time) / 1e9;
}

// Adds the rates of dd and of the checkpoint, and their ratio.
void AddRates(const std::string& what, double disk, double checkpoint, BenchmarkFigures* figures) {
  const std::string disk_name = what == "write" ? "disk" : absl::StrCat("disk_", what);
  (*figures)[disk_name + "_gb_per_s"] = disk;
  (*figures)[what + "_gb_per_s"] = checkpoint;
  (*figures)[what + "_of_disk"] = checkpoint / disk;
}

// Writes and reads files of as many bytes as a checkpoint has, by dd. Each file stays until the
// next one is there, as a checkpoint does.
class DdLoad {
 public:
  DdLoad(std::string folder, uint64_t bytes)
      : folder_(std::move(folder)), blocks_((bytes + kDdBlockBytes - 1) / kDdBlockBytes) {}

  absl::StatusOr<absl::Duration> Write() {
    const std::string last = std::exchange(path_, absl::StrCat(folder_, "/dd-", ++number_));
    ASSIGN_OR_RETURN(const absl::Duration time, TimeDdWrite(path_, blocks_));
    std::filesystem::remove(last);
    return time;
  }
  absl::StatusOr<absl::Duration> Read() { return TimeDdRead(path_); }
  uint64_t bytes() const { return blocks_ * kDdBlockBytes; }

 private:
  const std::string folder_;
  const uint64_t blocks_;
  int number_ = 0;
  std::string path_;
};

// What dd and a checkpoint took.
struct FileTimes {
  absl::Duration dd_write, write, dd_read, read;
};

// Writes both, then reads both from the disk. Adds the times.
absl::Status TimeFiles(const std::string& folder, bool is_dd_first, DdLoad* dd,
                       CheckpointLoad* load, FileTimes* times) {
  using Work = std::function<absl::StatusOr<absl::Duration>()>;
  const auto time_both = [is_dd_first](const Work& work_dd, absl::Duration* dd_time,
                                       const Work& work, absl::Duration* time) -> absl::Status {
    for (const bool is_dd : {is_dd_first, !is_dd_first}) {
      ASSIGN_OR_RETURN(const absl::Duration taken, is_dd ? work_dd() : work());
      *(is_dd ? dd_time : time) += taken;
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(time_both([dd] { return dd->Write(); }, &times->dd_write,
                            [load] { return load->Write(); }, &times->write));
  RETURN_IF_ERROR(DropFromPageCache(folder));
  RETURN_IF_ERROR(time_both([dd] { return dd->Read(); }, &times->dd_read,
                            [load] { return load->Read(); }, &times->read));
  return DropFromPageCache(folder);
}

// Two checkpoints and two files of dd. Who is first finds memory that the kernel has just freed,
// and so each is first once.
absl::StatusOr<BenchmarkFigures> MeasureFiles(const std::string& folder, DdLoad* dd,
                                              CheckpointLoad* load) {
  FileTimes times;
  for (const bool is_dd_first : {true, false}) {
    RETURN_IF_ERROR(TimeFiles(folder, is_dd_first, dd, load, &times));
  }
  BenchmarkFigures figures;
  AddRates("write", GigabytesPerSecond(2 * dd->bytes(), times.dd_write),
           GigabytesPerSecond(2 * load->bytes(), times.write), &figures);
  AddRates("read", GigabytesPerSecond(2 * dd->bytes(), times.dd_read),
           GigabytesPerSecond(2 * load->bytes(), times.read), &figures);
  return figures;
}

// The medians of --repeat, after one measurement that does not count: a machine's first touch of
// its memory and its disk may take longer.
absl::StatusOr<BenchmarkFigures> MeasureAllFiles(const std::string& folder) {
  RealClock clock;
  CheckpointLoad::Options options;
  options.clock = &clock;
  options.dir = absl::StrCat(folder, "/checkpoints");
  options.table_bytes = absl::GetFlag(FLAGS_bytes);
  ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointLoad> load, CheckpointLoad::Create(options));
  std::vector<BenchmarkFigures> runs;
  DdLoad dd(folder, 3 * options.table_bytes);
  for (int i = 0; i <= absl::GetFlag(FLAGS_repeat); ++i) {
    ASSIGN_OR_RETURN(BenchmarkFigures figures, MeasureFiles(folder, &dd, load.get()));
    if (i > 0) runs.push_back(std::move(figures));
  }
  return MediansOf(runs);
}

// Tells the parent the figures of the job.
absl::Status RunJob(const std::string& folder, Parent& parent) {
  SendGrpcLogsToVlog();
  RealClock clock;
  CheckpointedSteps job;
  job.dir = absl::StrCat(folder, "/job");
  job.layers = absl::GetFlag(FLAGS_layers);
  job.scale = absl::GetFlag(FLAGS_scale);
  job.compute = absl::GetFlag(FLAGS_compute);
  job.num_workers = absl::GetFlag(FLAGS_workers);
  job.steps = absl::GetFlag(FLAGS_steps);
  ASSIGN_OR_RETURN(const BenchmarkFigures figures, MeasureSteps(job, &clock));
  parent.WriteLine(figures.dump());
  return absl::OkStatus();
}

// In a process of its own, because its memory is measured.
absl::StatusOr<BenchmarkFigures> MeasureJob(const std::string& folder) {
  std::vector<std::unique_ptr<ForkedProcess>> children;
  children.push_back(StartChild([&folder](Parent& parent) { return RunJob(folder, parent); }));
  ASSIGN_OR_RETURN(const std::vector<std::string> lines, ChildResults(children));
  return BenchmarkFigures::parse(lines[0]);
}

absl::StatusOr<BenchmarkFigures> MeasureRows(const std::string& folder) {
  RealClock clock;
  CutPauses load;
  load.clock = &clock;
  load.dir = absl::StrCat(folder, "/rows");
  load.batches.num_keys = absl::GetFlag(FLAGS_rows);
  load.batches.batch = absl::GetFlag(FLAGS_row_batch);
  return MeasureCutPauses(load);
}

absl::Status Run() {
  ASSIGN_OR_RETURN(const std::unique_ptr<BenchmarkFolder> folder, BenchmarkFolder::Create());
  BenchmarkFigures figures;
  if (absl::GetFlag(FLAGS_steps) > 0) {
    ASSIGN_OR_RETURN(figures, MeasureJob(folder->path()));
    std::filesystem::remove_all(absl::StrCat(folder->path(), "/job"));
  }
  if (absl::GetFlag(FLAGS_repeat) > 0) {
    ASSIGN_OR_RETURN(const BenchmarkFigures files, MeasureAllFiles(folder->path()));
    figures.update(files);
  }
  if (absl::GetFlag(FLAGS_rows) > 0) {
    ASSIGN_OR_RETURN(const BenchmarkFigures rows, MeasureRows(folder->path()));
    figures.update(rows);
  }
  PrintFigures(figures);
  if (absl::GetFlag(FLAGS_json)) {
    BenchmarkFigures json;
    json["bytes"] = absl::GetFlag(FLAGS_bytes);
    json["layers"] = absl::GetFlag(FLAGS_layers);
    json["scale"] = absl::GetFlag(FLAGS_scale);
    json["workers"] = absl::GetFlag(FLAGS_workers);
    json.update(figures);
    std::cout << json.dump() << std::endl;
  }
  return absl::OkStatus();
}

absl::Status CheckFlags() {
  if (absl::GetFlag(FLAGS_bytes) < 4 || absl::GetFlag(FLAGS_bytes) % 4 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--bytes: expected whole float32, a multiple of 4, got ", absl::GetFlag(FLAGS_bytes)));
  }
  if (absl::GetFlag(FLAGS_repeat) < 0 || absl::GetFlag(FLAGS_steps) < 0 ||
      absl::GetFlag(FLAGS_workers) < 1) {
    return absl::InvalidArgumentError(
        "expected --repeat and --steps of 0 or more, and --workers of 1 or more");
  }
  if (absl::GetFlag(FLAGS_row_batch) < 1) {
    return absl::InvalidArgumentError("--row_batch: expected 1 or more, got 0");
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  capstan::InitProgram(argv[0],
                       "measures how fast checkpoints are written and restored, beside dd, and how "
                       "much longer the steps of a BSP job take meanwhile.\n"
                       "  checkpoint_benchmark [--dir=FOLDER] [--bytes=1000000000] [--json]");
  absl::Status status = capstan::ParseProgramFlags({argv, argv + argc});
  if (status.ok()) status = capstan::CheckFlags();
  if (!status.ok()) capstan::EndProgram("checkpoint_benchmark", status, /*is_usage_error=*/true);
  capstan::EndProgram("checkpoint_benchmark", capstan::Run());
}
