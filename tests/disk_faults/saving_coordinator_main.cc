// Keeps a state in a folder as a coordinator does: saving_coordinator DIR STEPS. It writes a line
// "term T after STEP" (-1: there was no state), or its error. If STEPS is "FROM TO", it saves a
// state for each of these steps, writes the step after it was saved, and at the end "done". If
// STEPS is empty, it does what each line of its input says:
//   save STEP   saves a state with this step, and writes "OK", or the error
//   careless    writes the file DIR/careless without any sync, and then "done"
#include <fcntl.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/model_file/open_file.h"
#include "server/coordinator/state/file_state_store.h"
#include "server/coordinator/state/posix_state_folder.h"

namespace capstan {
namespace {

// Not later: the process may be killed.
void WriteLine(const std::string& text) { std::cout << text << std::endl; }

absl::StatusOr<FileStateStore::Opened> Open(const std::string& dir) {
  absl::StatusOr<std::unique_ptr<PosixStateFolder>> folder =
      PosixStateFolder::Open(dir, /*take_over=*/false);
  if (!folder.ok()) return folder.status();
  return FileStateStore::Open({*std::move(folder), dir, /*check=*/nullptr});
}

// Its constants change with each third step.
absl::Status Save(FileStateStore& store, int64_t step) {
  SavedJob job;
  job.state.set_term(store.term());
  job.state.set_latest_first_step(step);
  v1::JobConstants constants;
  constants.mutable_job()->set_name(absl::StrCat("after ", step / 3));
  job.constants = std::make_shared<const v1::JobConstants>(constants);
  return store.Save(job);
}

void WriteCarelessly(const std::string& dir) {
  const std::string path = dir + "/careless";
  const auto file = OpenFile::Open(path + ".unfinished", O_WRONLY | O_CREAT | O_TRUNC);
  const bool is_written = file.ok() && file->WriteAt(0, "text", 4).ok() &&
                          std::rename(file->path().c_str(), path.c_str()) == 0;
  WriteLine(is_written ? "done" : "not written");
}

void SaveAll(FileStateStore& store, std::istream& steps) {
  int64_t step = 0;
  int64_t end = 0;
  for (steps >> step >> end; step < end; ++step) {
    if (Save(store, step).ok()) WriteLine(absl::StrCat(step));
  }
  WriteLine("done");
}

int Main(const std::string& dir, const std::string& steps) {
  const absl::StatusOr<FileStateStore::Opened> opened = Open(dir);
  if (!opened.ok()) {
    WriteLine(opened.status().ToString());
    return 1;
  }
  const int64_t before =
      opened->before.has_value() ? opened->before->state.latest_first_step() : -1;
  WriteLine(absl::StrCat("term ", opened->store->term(), " after ", before));
  if (!steps.empty()) {
    std::istringstream numbers(steps);
    SaveAll(*opened->store, numbers);
    return 0;
  }
  std::string command;
  while (std::cin >> command) {
    if (command == "careless") {
      WriteCarelessly(dir);
      continue;
    }
    int64_t step = 0;
    std::cin >> step;
    WriteLine(Save(*opened->store, step).ToString());
  }
  return 0;
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) { return argc == 3 ? capstan::Main(argv[1], argv[2]) : 2; }
