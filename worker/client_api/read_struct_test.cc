#include "worker/client_api/read_struct.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>

namespace capstan {
namespace {

// A struct, as it is now and as it was first.
struct Settings {
  size_t struct_size;
  double rate;
  const char* name;  // since the second version
};
struct FirstSettings {
  size_t struct_size;
  double rate;
};

absl::StatusOr<Settings> Read(const Settings* given) {
  return ReadStruct(given, &Settings::rate, "settings");
}

TEST(ReadStructTest, OurSizeIsCopiedWhole) {
  const Settings given = {sizeof(Settings), 0.5, "w"};
  const absl::StatusOr<Settings> read = Read(&given);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->rate, 0.5);
  EXPECT_STREQ(read->name, "w");
}

TEST(ReadStructTest, AnOlderProgramsFieldsAreCopiedAndTheOthersAreZero) {
  // On the heap, where a sanitizer sees a read beyond it.
  const auto given = std::make_unique<FirstSettings>(FirstSettings{sizeof(FirstSettings), 0.5});
  const absl::StatusOr<Settings> read = Read(reinterpret_cast<const Settings*>(given.get()));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->rate, 0.5);
  EXPECT_EQ(read->name, nullptr);
}

TEST(ReadStructTest, OtherSizesAreRefusedWithWhatToDo) {
  Settings given = {};
  EXPECT_EQ(Read(&given).status(),
            absl::InvalidArgumentError("struct_size: expected sizeof(settings), 24, got 0; set it "
                                       "before the call"));
  given.struct_size = sizeof(FirstSettings) - 1;
  EXPECT_TRUE(absl::IsInvalidArgument(Read(&given).status()));
  given.struct_size = sizeof(Settings) + 8;
  EXPECT_EQ(
      Read(&given).status(),
      absl::InvalidArgumentError(
          "struct_size: expected sizeof(settings) of this library, at most 24, got 32; the "
          "program was built with a newer capstan.h, so give it the library of that version"));
  EXPECT_TRUE(absl::IsInvalidArgument(Read(nullptr).status()));
}

}  // namespace
}  // namespace capstan
