#include "server/checkpoint/checkpoint_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/model_file/model_file.h"
#include "server/checkpoint/manifest.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kPrefix = "checkpoint-";
constexpr char kLockFile[] = "lock";

std::string NameOf(uint64_t number) { return absl::StrFormat("%s%06d", kPrefix, number); }

std::optional<uint64_t> NumberOf(absl::string_view name) {
  uint64_t number = 0;
  if (!absl::ConsumePrefix(&name, kPrefix) || !absl::SimpleAtoi(name, &number)) return std::nullopt;
  return number;
}

std::string TokenText(uint64_t token) { return absl::StrFormat("%016x\n", token); }

absl::Status FolderError(const std::string& path, absl::string_view expected,
                         const std::string& got) {
  const std::string text = absl::StrCat(path, ": expected ", expected, ", got \"", got, "\"");
  const bool is_full = got == std::strerror(ENOSPC) || got == std::strerror(EDQUOT);
  return is_full ? absl::ResourceExhaustedError(text) : absl::UnavailableError(text);
}

absl::Status SyncFolder(const std::string& path) {
  ASSIGN_OR_RETURN(const OpenFile folder, OpenFile::Open(path, O_RDONLY | O_DIRECTORY));
  return folder.Sync();
}

// What lies in a folder. `error` says why it cannot be read.
std::vector<fs::directory_entry> EntriesOf(const std::string& folder, std::error_code& error) {
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator next(folder, error), end; !error && next != end;
       next.increment(error)) {
    entries.push_back(*next);
  }
  return entries;
}

// Removes a checkpoint. Its manifest goes first: what is left of it is not complete.
absl::Status Remove(const std::string& path) {
  std::error_code error;
  fs::remove(absl::StrCat(path, "/", kManifestFile), error);
  if (!error) RETURN_IF_ERROR(SyncFolder(path));
  for (const fs::directory_entry& entry : EntriesOf(path, error)) {
    const std::string name = entry.path().filename();
    const bool is_ours = absl::StartsWith(name, "shard-") || absl::StartsWith(name, kManifestFile);
    std::error_code ignored;
    if (is_ours) fs::remove(entry.path(), ignored);
  }
  if (error || !fs::remove(path, error)) {
    return FolderError(path, "to remove this old checkpoint", error.message());
  }
  return absl::OkStatus();
}

class OpenedFolder : public CheckpointStorage {
 public:
  OpenedFolder(std::string dir, OpenFile lock, uint64_t token)
      : dir_(std::move(dir)), lock_(std::move(lock)), token_(token) {}

  uint64_t token() const override { return token_; }

  std::string PathOf(const std::string& name) const override {
    return absl::StrCat(dir_, "/", name);
  }

  absl::StatusOr<std::string> Create() override {
    ASSIGN_OR_RETURN(const std::vector<CheckpointName> all, ListCheckpoints(dir_));
    const uint64_t newest = all.empty() ? 0 : *NumberOf(all.front().name);
    std::string name = NameOf(std::max(newest, last_) + 1);
    last_ = *NumberOf(name);
    if (mkdir(PathOf(name).c_str(), 0777) != 0) {
      return FolderError(PathOf(name), "to make this folder", std::strerror(errno));
    }
    RETURN_IF_ERROR(SyncFolder(dir_));
    return name;
  }

  absl::Status Publish(const std::string& name, const v1::CheckpointManifest& manifest) override {
    const std::string path = absl::StrCat(PathOf(name), "/", kManifestFile);
    const std::string text = EncodeManifest(manifest);
    {
      ASSIGN_OR_RETURN(const OpenFile file, OpenFile::Open(absl::StrCat(path, ".unfinished"),
                                                           O_WRONLY | O_CREAT | O_TRUNC));
      RETURN_IF_ERROR(file.WriteAt(0, text.data(), text.size()));
      RETURN_IF_ERROR(file.Sync());
      if (std::rename(file.path().c_str(), path.c_str()) != 0) {
        return FolderError(path, "to put the manifest there", std::strerror(errno));
      }
    }
    return SyncFolder(PathOf(name));
  }

  absl::Status RemoveOld(uint32_t keep) override {
    ASSIGN_OR_RETURN(const std::vector<CheckpointName> all, ListCheckpoints(dir_));
    absl::Status status;
    uint32_t complete = 0;
    for (const CheckpointName& checkpoint : all) {
      if (checkpoint.is_complete && ++complete <= keep) continue;
      if (complete == 0) continue;  // It may become complete.
      status.Update(Remove(PathOf(checkpoint.name)));
    }
    return status;
  }

 private:
  const std::string dir_;
  const OpenFile lock_;
  const uint64_t token_;
  uint64_t last_ = 0;  // number of the last created one
};

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointStorage>> OpenCheckpointFolder(const std::string& dir,
                                                                        uint64_t token) {
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) return FolderError(dir, "a folder for checkpoints", error.message());
  ASSIGN_OR_RETURN(OpenFile lock,
                   OpenFile::Open(absl::StrCat(dir, "/", kLockFile), O_RDWR | O_CREAT));
  if (flock(lock.descriptor(), LOCK_EX | LOCK_NB) != 0) {
    return absl::AbortedError(
        absl::StrCat(dir,
                     ": expected a folder that no other job uses, but the coordinator of "
                     "another one does; choose another folder, or end that job first"));
  }
  const std::string text = TokenText(token);
  RETURN_IF_ERROR(lock.WriteAt(0, text.data(), text.size()));
  RETURN_IF_ERROR(lock.Sync());
  return std::make_unique<OpenedFolder>(dir, std::move(lock), token);
}

absl::Status CheckCheckpointFolder(const std::string& dir, uint64_t token) {
  const std::string path = absl::StrCat(dir, "/", kLockFile);
  const absl::StatusOr<OpenFile> file = OpenFile::Open(path, O_RDONLY);
  const std::string expected = TokenText(token);
  std::string text(expected.size(), '\0');
  const bool is_read = file.ok() && file->ReadAt(0, text.data(), text.size()).ok();
  if (is_read && text == expected) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": expected the file that the coordinator has written, got ",
                   is_read ? "another" : "none",
                   "; choose a folder that the coordinator and all servers share"));
}

absl::StatusOr<std::vector<CheckpointName>> ListCheckpoints(const std::string& dir) {
  std::error_code error;
  std::vector<std::pair<uint64_t, CheckpointName>> found;
  for (const fs::directory_entry& entry : EntriesOf(dir, error)) {
    const std::string name = entry.path().filename();
    const std::optional<uint64_t> number = NumberOf(name);
    std::error_code ignored;
    if (!number.has_value() || !entry.is_directory(ignored)) continue;
    const bool is_complete = fs::exists(entry.path() / kManifestFile, ignored);
    found.push_back({*number, {name, is_complete}});
  }
  if (error == std::errc::no_such_file_or_directory) {
    return absl::NotFoundError(absl::StrCat(dir, ": expected a folder with checkpoints, got none"));
  }
  if (error) return FolderError(dir, "a folder with checkpoints", error.message());
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<CheckpointName> names;
  for (auto& [number, name] : found) names.push_back(std::move(name));
  return names;
}

absl::StatusOr<std::string> NewestCheckpoint(const std::string& dir) {
  const absl::StatusOr<std::vector<CheckpointName>> all = ListCheckpoints(dir);
  if (absl::IsNotFound(all.status())) return std::string();
  RETURN_IF_ERROR(all.status());
  for (const CheckpointName& checkpoint : *all) {
    if (checkpoint.is_complete) return absl::StrCat(dir, "/", checkpoint.name);
  }
  return std::string();
}

}  // namespace capstan
