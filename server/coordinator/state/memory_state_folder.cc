#include "server/coordinator/state/memory_state_folder.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

absl::Status NoFile(const std::string& path) {
  return absl::NotFoundError(absl::StrCat(path, ": expected it to be there"));
}

// Empty: the top folder.
std::string FolderOfPath(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? "" : path.substr(0, slash);
}

bool HasFolder(const MemoryStateFolder::Tree& tree, const std::string& path) {
  return path.empty() || tree.folders.count(path) != 0;
}

void RemoveFrom(MemoryStateFolder::Tree& tree, const std::string& path) {
  tree.files.erase(path);
  if (tree.folders.erase(path) == 0) return;
  for (auto file = tree.files.begin(); file != tree.files.end();) {
    file = FolderOfPath(file->first) == path ? tree.files.erase(file) : std::next(file);
  }
}

}  // namespace

absl::Status MemoryStateFolder::Begin(absl::string_view operation, const std::string& path) {
  error_ = absl::OkStatus();
  if (before != nullptr) before(operation, path);
  return error_;
}

absl::Status MemoryStateFolder::End(const absl::Status& error,
                                    const std::function<void(Tree&)>& change) {
  if (error.ok() || effect_ != Effect::kNothing) change(content_->visible);
  if (error.ok() || effect_ == Effect::kDone) change(content_->durable);
  return error;
}

absl::StatusOr<std::vector<std::string>> MemoryStateFolder::List(const std::string& path) {
  RETURN_IF_ERROR(Begin("List", path));
  const Tree& tree = content_->visible;
  if (!HasFolder(tree, path)) return NoFile(path);
  std::vector<std::string> names;
  const std::string prefix = path.empty() ? "" : path + "/";
  for (const auto& [file, bytes] : tree.files) {
    if (FolderOfPath(file) == path) names.push_back(file.substr(prefix.size()));
  }
  if (path.empty()) names.insert(names.end(), tree.folders.begin(), tree.folders.end());
  return names;
}

absl::Status MemoryStateFolder::MakeFolder(const std::string& path) {
  const absl::Status error = Begin("MakeFolder", path);
  if (error.ok() && HasFolder(content_->visible, path)) {
    return absl::AlreadyExistsError(absl::StrCat(path, ": expected no such folder"));
  }
  return End(error, [&](Tree& tree) { tree.folders.insert(path); });
}

absl::Status MemoryStateFolder::Write(const std::string& path, absl::string_view bytes) {
  const absl::Status error = Begin("Write", path);
  if (!HasFolder(content_->visible, FolderOfPath(path))) return NoFile(path);
  return End(error, [&](Tree& tree) { tree.files[path] = std::string(bytes); });
}

absl::StatusOr<std::string> MemoryStateFolder::Read(const std::string& path) {
  RETURN_IF_ERROR(Begin("Read", path));
  const auto file = content_->visible.files.find(path);
  return file == content_->visible.files.end() ? absl::StatusOr<std::string>(NoFile(path))
                                               : file->second;
}

absl::Status MemoryStateFolder::Remove(const std::string& path) {
  const absl::Status error = Begin("Remove", path);
  const Tree& tree = content_->visible;
  if (tree.files.count(path) == 0 && tree.folders.count(path) == 0) return NoFile(path);
  return End(error, [&](Tree& changed) { RemoveFrom(changed, path); });
}

}  // namespace capstan
