#include "server/checkpoint/checkpoint_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
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
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/model_file/durable_file.h"
#include "common/model_file/open_file.h"
#include "server/checkpoint/manifest.h"

namespace capstan {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kPrefix = "checkpoint-";
constexpr char kLockFile[] = "lock";
// A larger number is nobody's checkpoint.
constexpr uint64_t kMostNumber = 999'999'999'999;

std::string NameOf(uint64_t number) { return absl::StrFormat("%s%06d", kPrefix, number); }

// The number in a checkpoint's name; nothing if it is no such name.
std::optional<uint64_t> NumberOf(const std::string& name) {
  absl::string_view digits = name;
  uint64_t number = 0;
  const bool is_name = absl::ConsumePrefix(&digits, kPrefix) && absl::SimpleAtoi(digits, &number) &&
                       number <= kMostNumber && name == NameOf(number);
  return is_name ? std::make_optional(number) : std::nullopt;
}

// Whether a checkpoint's folder may have a file with this name.
bool IsOurFile(absl::string_view name) {
  absl::ConsumeSuffix(&name, kUnfinishedSuffix);
  uint32_t shard = 0;
  absl::string_view digits = name;
  const bool has_number = absl::ConsumePrefix(&digits, "shard-") &&
                          absl::ConsumeSuffix(&digits, ".safetensors") &&
                          absl::SimpleAtoi(digits, &shard);
  return name == kManifestFile || (has_number && name == ShardFileName(shard));
}

std::string TokenText(uint64_t token) { return absl::StrFormat("%016x\n", token); }

std::error_code SystemError() { return {errno, std::generic_category()}; }

absl::Status FolderError(const std::string& path, absl::string_view expected,
                         const std::error_code& error) {
  const std::string text =
      absl::StrCat(path, ": expected ", expected, ", got \"", error.message(), "\"");
  const bool is_full = error.value() == ENOSPC || error.value() == EDQUOT;
  return is_full ? absl::ResourceExhaustedError(text) : absl::UnavailableError(text);
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

// Whether this is a folder. A link to a folder is none: its contents are not ours to remove.
bool IsFolder(const fs::directory_entry& entry, std::error_code& error) {
  const fs::file_type type = entry.symlink_status(error).type();
  if (type == fs::file_type::not_found) error.clear();
  return type == fs::file_type::directory;
}

// Removes a checkpoint. Files that are none of its own stay, and so does their folder.
absl::Status Remove(const std::string& path) {
  constexpr absl::string_view kExpected = "to remove this old checkpoint";
  std::error_code error;
  // The manifest goes first: what is left is not complete.
  const bool was_complete = fs::remove(absl::StrCat(path, "/", kManifestFile), error);
  if (error) return FolderError(path, kExpected, error);
  if (was_complete) RETURN_IF_ERROR(SyncFolder(path));
  for (const fs::directory_entry& entry : EntriesOf(path, error)) {
    if (!IsOurFile(entry.path().filename().string())) continue;
    if (unlink(entry.path().c_str()) != 0) {
      return FolderError(entry.path(), kExpected, SystemError());
    }
  }
  if (error) return FolderError(path, kExpected, error);
  if (rmdir(path.c_str()) == 0 || errno == ENOTEMPTY) return absl::OkStatus();
  return FolderError(path, kExpected, SystemError());
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
    // A server of an earlier job may still write into the newest folder: its number is not reused.
    if (!all.empty()) last_ = std::max(last_, *NumberOf(all.front().name));
    absl::StatusOr<std::string> made = MakeNext();
    for (const CheckpointName& checkpoint : all) {
      // RemoveOld returns the error if it stays.
      if (!checkpoint.is_complete) Remove(PathOf(checkpoint.name)).IgnoreError();
    }
    return made;
  }

  absl::Status Publish(const std::string& name, const v1::CheckpointManifest& manifest) override {
    const std::string path = absl::StrCat(PathOf(name), "/", kManifestFile);
    const std::string text = EncodeManifest(manifest);
    // What nobody can read must not make older checkpoints superfluous.
    RETURN_IF_ERROR(DecodeManifest(text, path).status());
    return WriteFileDurably(path, text);
  }

  // Create removes what stays.
  void Discard(const std::string& name) override { Remove(PathOf(name)).IgnoreError(); }

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
  // Makes the folder of the next number, and returns its name.
  absl::StatusOr<std::string> MakeNext() {
    while (last_ < kMostNumber) {
      std::string name = NameOf(++last_);
      if (mkdir(PathOf(name).c_str(), 0777) == 0) {
        RETURN_IF_ERROR(SyncFolder(dir_));
        return name;
      }
      // Somebody else's file may have the name.
      if (errno != EEXIST) return FolderError(PathOf(name), "to make this folder", SystemError());
    }
    return absl::ResourceExhaustedError(absl::StrCat(dir_, ": expected no checkpoint above ",
                                                     NameOf(kMostNumber - 1), ", got ",
                                                     NameOf(kMostNumber), "; move it elsewhere"));
  }

  const std::string dir_;
  const OpenFile lock_;
  const uint64_t token_;
  uint64_t last_ = 0;  // number of the last created one
};

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointStorage>> OpenCheckpointFolder(const std::string& dir,
                                                                        uint64_t token,
                                                                        bool takes_over,
                                                                        absl::Duration patience) {
  RETURN_IF_ERROR(MakeFolders(dir, "a folder for checkpoints"));
  ASSIGN_OR_RETURN(OpenFile lock, OpenFile::Open(absl::StrCat(dir, "/", kLockFile),
                                                 O_RDWR | O_CREAT | O_NOFOLLOW));
  // Ends with this process, however it ends. One that was killed a moment ago may still have it.
  const absl::Time end = absl::Now() + (takes_over ? absl::ZeroDuration() : patience);
  int error = flock(lock.descriptor(), LOCK_EX | LOCK_NB);
  while (error != 0 && errno == EWOULDBLOCK && absl::Now() < end) {
    absl::SleepFor(absl::Milliseconds(20));
    error = flock(lock.descriptor(), LOCK_EX | LOCK_NB);
  }
  if (error != 0) {
    if (errno != EWOULDBLOCK) return FolderError(lock.path(), "to lock this file", SystemError());
    if (!takes_over) {
      return absl::AbortedError(
          absl::StrCat(dir,
                       ": expected a folder that no other job uses, but the coordinator of "
                       "another one does; choose another folder, or end that job first"));
    }
  }
  const std::string text = TokenText(token);
  RETURN_IF_ERROR(lock.WriteAt(0, text.data(), text.size()));
  RETURN_IF_ERROR(lock.Sync());
  return std::make_unique<OpenedFolder>(dir, std::move(lock), token);
}

absl::Status CheckCheckpointFolder(const std::string& dir, uint64_t token) {
  const std::string path = absl::StrCat(dir, "/", kLockFile);
  const std::string expected = TokenText(token);
  std::string text(expected.size(), '\0');
  const absl::StatusOr<OpenFile> file = OpenFile::Open(path, O_RDONLY);
  const absl::Status read = file.ok() ? file->ReadAt(0, text.data(), text.size()) : file.status();
  if (read.ok() && text == expected) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      read.ok()
          ? absl::StrCat(path, ": expected what the coordinator has written, got another text")
          : read.message(),
      "; choose a folder that the coordinator and all servers share"));
}

absl::StatusOr<std::vector<CheckpointName>> ListCheckpoints(const std::string& dir) {
  std::error_code error;
  std::vector<std::pair<uint64_t, CheckpointName>> found;
  for (const fs::directory_entry& entry : EntriesOf(dir, error)) {
    const std::string name = entry.path().filename();
    const std::optional<uint64_t> number = NumberOf(name);
    if (!number.has_value()) continue;
    const bool is_folder = IsFolder(entry, error);
    const bool is_complete = is_folder && fs::exists(entry.path() / kManifestFile, error);
    // A checkpoint that cannot be read must not pass for an incomplete one, which is removed.
    if (error) break;
    if (is_folder) found.push_back({*number, {name, is_complete}});
  }
  if (error == std::errc::no_such_file_or_directory) {
    return absl::NotFoundError(absl::StrCat(dir, ": expected a folder with checkpoints, got none"));
  }
  if (error) return FolderError(dir, "a folder with checkpoints", error);
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

absl::StatusOr<std::vector<std::string>> CompleteCheckpoints(const std::string& path) {
  std::error_code error;
  if (fs::exists(fs::path(path) / kManifestFile, error)) return std::vector<std::string>{path};
  ASSIGN_OR_RETURN(const std::vector<CheckpointName> all, ListCheckpoints(path));
  std::vector<std::string> paths;
  for (const CheckpointName& checkpoint : all) {
    if (checkpoint.is_complete) paths.push_back(absl::StrCat(path, "/", checkpoint.name));
  }
  if (!paths.empty()) return paths;
  return absl::NotFoundError(absl::StrCat(
      path, ": expected a complete checkpoint, or a folder with complete ones, got neither; ",
      "a complete one has the file ", kManifestFile));
}

}  // namespace capstan
