#ifndef SERVER_COORDINATOR_STATE_FILE_STATE_STORE_H_
#define SERVER_COORDINATOR_STATE_FILE_STATE_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/coordinator/state/state_folder.h"
#include "server/coordinator/state/state_store.h"

namespace capstan {

// Keeps a coordinator's states as files. saved_states.h has their names, and state_file.h their
// form. A later term makes its folder before it reads. An earlier one looks for such folders after
// it has written. So either the later one reads what was written, or the earlier one's call fails.
class FileStateStore : public StateStore {
 public:
  struct Options {
    // Required.
    std::unique_ptr<StateFolder> folder;
    // The folder's path, for errors. Required.
    std::string dir;
    // Whether a coordinator may go on with this job. It is asked before anything is changed, and
    // once more about what this term begins with. Not about a job that is over. Empty: it may.
    std::function<absl::Status(const SavedJob&)> check;
  };
  struct Opened {
    std::unique_ptr<FileStateStore> store;
    // What this term begins with. None: there was no job, or it is over.
    std::optional<SavedJob> before;
  };

  // Begins a new term. Nobody must learn of it before its first Save: what it begins with may not
  // be durable yet. ABORTED: another coordinator has begun a later one. DATA_LOSS: the newest state
  // is damaged, and the error says what to do. FAILED_PRECONDITION: a newer version has written it.
  // Also errors of `check` and of the folder.
  static absl::StatusOr<Opened> Open(Options options);

  uint64_t term() const override { return term_; }
  absl::Status Save(const SavedJob& job) override;
  absl::Status Confirm() override;

 private:
  FileStateStore(Options options, uint64_t term, uint64_t term_before)
      : folder_(std::move(options.folder)),
        dir_(std::move(options.dir)),
        term_(term),
        term_before_(term_before) {}

  // All terms. ABORTED: there is a later one.
  absl::StatusOr<std::vector<uint64_t>> CheckTerms();
  absl::Status WriteState(const SavedJob& job);
  absl::Status WriteConstants(const std::shared_ptr<const v1::JobConstants>& constants);
  // Removes what nobody needs, after the last state was saved.
  void RemoveOld(const std::vector<uint64_t>& terms);
  // Removes a file. False: it may still be there.
  bool RemoveFile(const std::string& path);

  const std::unique_ptr<StateFolder> folder_;
  const std::string dir_;
  const uint64_t term_;
  const uint64_t term_before_;  // the last one that has a state; 0: none
  uint64_t saved_ = 0;          // number of the last state that was saved
  // The files of this term. Of states: the XXH3-64 of the constants that they name, by number. Of
  // constants, by XXH3-64: whether they are certainly there.
  std::map<uint64_t, uint64_t> states_;
  std::map<uint64_t, bool> constants_;
  // The last ones that were written, so that they are hashed once.
  std::shared_ptr<const v1::JobConstants> last_constants_;
  uint64_t last_xxh3_ = 0;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_STATE_FILE_STATE_STORE_H_
