#include "common/history/history_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "common/history/history_builder.h"

namespace capstan {
namespace {

HistoryBuilder TwoExchanges() {
  HistoryBuilder builder(v1::ContractRecord::SSP, 1);
  builder.Ask(0, 100, -1, 0, 10).Answer(20, 0, 0, {});
  builder.Ask(0, 100, 0, 1, 30).Answer(40, 1, 0, {{0, 0}});
  return builder;
}

std::string FreshFolder(const std::string& name) {
  const std::string folder = testing::TempDir() + name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

void WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST(HistoryFileTest, WhatWasWrittenIsReadAgain) {
  const std::string folder = FreshFolder("written");
  const std::string path = folder + "/worker.history";
  const auto file = HistoryFile::Create(path).value();
  HistoryBuilder builder = TwoExchanges();
  builder.End(50);
  for (const v1::HistoryRecord& record : builder.records()) file->Append(record);
  ASSERT_TRUE(file->Finish().ok());
  EXPECT_EQ(SerializeHistory(ReadHistoryFile(path).value()), SerializeHistory(builder.records()));
  EXPECT_EQ(ReadHistory(folder).value().exchanges.size(), 2);
}

TEST(HistoryFileTest, ACutOffRecordIsLeftOut) {
  const std::string path = FreshFolder("cut") + "/worker.history";
  const std::string bytes = SerializeHistory(TwoExchanges().records());
  WriteBytes(path, bytes.substr(0, bytes.size() - 3));
  const auto records = ReadHistoryFile(path);
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ(records->size(), TwoExchanges().records().size() - 1);
}

// A kill may cut the file anywhere after its first record.
TEST(HistoryFileTest, AFileThatIsCutAnywhereHasItsWholeRecords) {
  const std::string folder = FreshFolder("cut_anywhere");
  const std::vector<v1::HistoryRecord> records = TwoExchanges().UseChanges().records();
  const std::string bytes = SerializeHistory(records);
  size_t whole = 1;
  for (size_t size = SerializeHistory({records[0]}).size(); size <= bytes.size(); ++size) {
    WriteBytes(folder + "/worker.history", bytes.substr(0, size));
    const auto read = ReadHistoryFile(folder + "/worker.history");
    ASSERT_TRUE(read.ok()) << size << ": " << read.status();
    while (whole < records.size() &&
           SerializeHistory({records.begin(), records.begin() + whole + 1}).size() <= size) {
      ++whole;
    }
    EXPECT_EQ(read->size(), whole) << size;
    EXPECT_TRUE(ReadHistory(folder).ok()) << size;
  }
}

TEST(HistoryFileTest, AFileOfAProcessThatRecordedNothingIsLeftOut) {
  const std::string folder = FreshFolder("nothing");
  WriteBytes(folder + "/a.history", "");
  EXPECT_FALSE(ReadHistory(folder).ok()) << "there is no other";
  WriteBytes(folder + "/b.history", SerializeHistory(TwoExchanges().records()));
  EXPECT_EQ(ReadHistory(folder).value().exchanges.size(), 2);
}

TEST(HistoryFileTest, AFileThatIsNoHistoryIsToBeMovedAway) {
  const std::string path = FreshFolder("other") + "/worker.history";
  const std::string bytes = SerializeHistory(TwoExchanges().records());
  WriteBytes(path, bytes.substr(0, 3));
  EXPECT_EQ(ReadHistoryFile(path).status().message(),
            "history file " + path +
                ": expected a history, got an end within its first record; the file is cut, "
                "damaged or no history of Capstan: move it away");
  WriteBytes(path, bytes + std::string(100'000, '\xff'));
  EXPECT_EQ(ReadHistoryFile(path).status().message(),
            "history file " + path + ": expected a history, got something else after " +
                std::to_string(TwoExchanges().records().size()) +
                " records; the file is cut, damaged or no history of Capstan: move it away");
}

TEST(HistoryFileTest, ErrorsNameTheFile) {
  const std::string folder = FreshFolder("errors");
  const std::string path = folder + "/worker.history";
  EXPECT_NE(ReadHistory(folder).status().message().find(folder), std::string::npos);
  EXPECT_NE(ReadHistory(path).status().message().find(path), std::string::npos);
  WriteBytes(path, "this is no history, but long enough to be one");
  EXPECT_NE(ReadHistory(path).status().message().find(path), std::string::npos);
  EXPECT_TRUE(absl::IsUnavailable(HistoryFile::Create(folder + "/no/such").status()));
}

}  // namespace
}  // namespace capstan
