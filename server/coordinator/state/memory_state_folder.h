#ifndef SERVER_COORDINATOR_STATE_MEMORY_STATE_FOLDER_H_
#define SERVER_COORDINATOR_STATE_MEMORY_STATE_FOLDER_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/coordinator/state/state_folder.h"

namespace capstan {

// A state folder without a disk. Several coordinators may have one each with the same content.
class MemoryStateFolder : public StateFolder {
 public:
  struct Tree {
    std::map<std::string, std::string> files;
    std::set<std::string> folders;
  };
  struct Content {
    Tree visible;
    Tree durable;

    // The power fails, and comes back.
    void LosePower() { visible = durable; }
  };
  // What an operation that fails has done: nothing, all, or all that the next loss of power undoes.
  enum class Effect { kNothing, kDone, kNotDurable };

  explicit MemoryStateFolder(std::shared_ptr<Content> content) : content_(std::move(content)) {}

  // Called at the start of each operation, with the method's name. It may call operations of other
  // folders with this content, and FailNow.
  std::function<void(absl::string_view operation, const std::string& path)> before;

  // The operation that has called `before` returns this error.
  void FailNow(absl::Status error, Effect effect = Effect::kNothing) {
    error_ = std::move(error);
    effect_ = effect;
  }

  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override;
  absl::Status MakeFolder(const std::string& path) override;
  absl::Status Write(const std::string& path, absl::string_view bytes) override;
  absl::StatusOr<std::string> Read(const std::string& path) override;
  absl::Status Remove(const std::string& path) override;

 private:
  // Calls `before`. The error of FailNow.
  absl::Status Begin(absl::string_view operation, const std::string& path);
  // Lets `change` happen as far as it does after `error`, which is returned.
  absl::Status End(const absl::Status& error, const std::function<void(Tree&)>& change);

  const std::shared_ptr<Content> content_;
  absl::Status error_;
  Effect effect_ = Effect::kNothing;
};

}  // namespace capstan

#endif  // SERVER_COORDINATOR_STATE_MEMORY_STATE_FOLDER_H_
