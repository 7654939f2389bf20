#include "common/history/history_file.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/util/delimited_message_util.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/input_file.h"
#include "common/base/status_macros.h"

namespace capstan {
namespace {

std::string Delimited(const v1::HistoryRecord& record) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::util::SerializeDelimitedToZeroCopyStream(record, &stream);
  }
  return bytes;
}

absl::Status WriteError(const std::string& path) {
  return absl::UnavailableError(absl::StrCat("history file ", path, ": cannot be written (",
                                             std::strerror(errno),
                                             "); give --record_history a folder with space"));
}

absl::Status NoHistory(const std::string& path, const std::string& got) {
  return absl::InvalidArgumentError(
      absl::StrCat("history file ", path, ": expected a history, got ", got,
                   "; the file is cut, damaged or no history of Capstan: move it away"));
}

absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return std::vector<std::string>{path};
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    if (entry.path().extension() == ".history") files.push_back(entry.path().string());
  }
  if (files.empty()) {
    return absl::NotFoundError(absl::StrCat("folder ", path,
                                            " has no *.history files; record them "
                                            "with capstan run --record_history=",
                                            path));
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HistoryFile>> HistoryFile::Create(const std::string& path) {
  FILE* const file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return WriteError(path);
  // Without a buffer in this process, a kill loses no record.
  std::setvbuf(file, nullptr, _IONBF, 0);
  return std::unique_ptr<HistoryFile>(new HistoryFile(path, file));
}

HistoryFile::~HistoryFile() {
  MutexLock lock(&mu_);
  if (file_ != nullptr) std::fclose(file_);
}

void HistoryFile::Append(const v1::HistoryRecord& record) {
  const std::string bytes = Delimited(record);
  MutexLock lock(&mu_);
  if (file_ == nullptr) return;
  has_failed_ |= std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size();
}

absl::Status HistoryFile::Finish() {
  MutexLock lock(&mu_);
  has_failed_ |= std::fclose(std::exchange(file_, nullptr)) != 0;
  return has_failed_ ? WriteError(path_) : absl::OkStatus();
}

std::string SerializeHistory(const std::vector<v1::HistoryRecord>& records) {
  std::string bytes;
  for (const v1::HistoryRecord& record : records) bytes += Delimited(record);
  return bytes;
}

absl::StatusOr<std::vector<v1::HistoryRecord>> ReadHistoryFile(const std::string& path) {
  RETURN_IF_ERROR(Annotate(CheckIsFile(path), absl::StrCat("history file ", path)));
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::NotFoundError(absl::StrCat("history file ", path,
                                            ": the file is missing or cannot "
                                            "be read"));
  }
  std::error_code ignored;
  const auto file_bytes = static_cast<int64_t>(std::filesystem::file_size(path, ignored));
  google::protobuf::io::IstreamInputStream stream(&file);
  std::vector<v1::HistoryRecord> records;
  while (true) {
    v1::HistoryRecord record;
    bool is_clean_end = false;
    if (!google::protobuf::util::ParseDelimitedFromZeroCopyStream(&record, &stream,
                                                                  &is_clean_end)) {
      // A wrong size before a record is a clean end to the parser, too.
      const bool has_all = is_clean_end && stream.ByteCount() >= file_bytes;
      const bool is_cut = !is_clean_end && file.eof();
      if (has_all || (is_cut && !records.empty())) return records;
      const std::string got =
          is_cut ? "an end within its first record"
                 : absl::StrCat("something else after ", records.size(), " records");
      return NoHistory(path, got);
    }
    records.push_back(std::move(record));
  }
}

absl::StatusOr<History> ReadHistory(const std::string& path) {
  ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesOf(path));
  HistoryAssembler assembler;
  for (const std::string& file : files) {
    ASSIGN_OR_RETURN(const std::vector<v1::HistoryRecord> records, ReadHistoryFile(file));
    if (records.empty()) continue;
    if (absl::Status status = assembler.AddFile(records); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("history file ", file, ": ", status.message()));
    }
  }
  return assembler.Finish();
}

}  // namespace capstan
