#include "common/job/job_settings.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/job/field_text.h"

namespace capstan {
namespace {

void CollectFields(const google::protobuf::Descriptor& message, const std::string& prefix,
                   std::set<std::string>* fields) {
  for (int i = 0; i < message.field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = message.field(i);
    const std::string path = prefix + field->name();
    if (field->message_type() != nullptr && !field->is_repeated()) {
      CollectFields(*field->message_type(), path + ".", fields);
    } else {
      fields->insert(path);
    }
  }
}

TEST(JobSettingsTest, EveryFieldOfTheJobIsOneSetting) {
  std::set<std::string> fields;
  CollectFields(*v1::JobSpec::descriptor(), "", &fields);
  std::multiset<std::string> settings;
  for (const JobSetting& setting : JobSettings()) settings.insert(setting.path);
  EXPECT_EQ(std::multiset<std::string>(fields.begin(), fields.end()), settings);
}

TEST(JobSettingsTest, FlagsAndPathsAreDistinctAndFound) {
  std::set<std::string> keys;
  for (const JobSetting& setting : JobSettings()) {
    EXPECT_TRUE(keys.insert(setting.key()).second) << setting.key();
    EXPECT_EQ(FindJobSetting(setting.key()), &setting);
  }
  EXPECT_EQ(FindJobSetting("optimizer.learning_rate"), FindJobSetting("learning_rate"));
  EXPECT_EQ(FindJobSetting("no_such_flag"), nullptr);
  EXPECT_EQ(FindJobSetting(""), nullptr);
}

TEST(JobSettingsTest, ASettingWithoutAFlagIsNamedByItsPath) {
  EXPECT_EQ(FindJobSetting("batch_size")->OnCommandLine(), "--batch_size");
  const JobSetting& setting = *FindJobSetting("limits.message_bytes");
  EXPECT_EQ(setting.flag, "");
  EXPECT_EQ(setting.OnCommandLine(), "--field=limits.message_bytes");
}

// A condition that names no flag, or no value of it, could never be fulfilled.
TEST(JobSettingsTest, EachConditionNamesAFlagAndItsValues) {
  for (const JobSetting& setting : JobSettings()) {
    if (setting.only_with.empty()) continue;
    const std::vector<std::string> parts = absl::StrSplit(setting.only_with, '=');
    ASSERT_EQ(parts.size(), 2u) << setting.path;
    const JobSetting* needed = FindJobSetting(parts[0]);
    ASSERT_NE(needed, nullptr) << setting.path;
    for (const std::string& value : std::vector<std::string>(absl::StrSplit(parts[1], ','))) {
      v1::JobSpec job;
      EXPECT_TRUE(SetFieldText(MessageOf(*needed, &job), *needed->descriptor, value).ok())
          << setting.path << ": " << value;
    }
  }
}

TEST(JobSettingsTest, MessageOfReachesIntoMessagesWithoutChangingThem) {
  v1::JobSpec job;
  job.mutable_optimizer()->set_momentum(0.5);
  const JobSetting& setting = *FindJobSetting("learning_rate");
  EXPECT_EQ(MessageOf(setting, &job), job.mutable_optimizer());
  EXPECT_EQ(setting.descriptor->name(), "learning_rate");
  EXPECT_EQ(job.optimizer().momentum(), 0.5);
  EXPECT_EQ(SettingText(*FindJobSetting("momentum"), &job), "0.5");
}

}  // namespace
}  // namespace capstan
