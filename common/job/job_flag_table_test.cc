#include "common/job/job_flag_table.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

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

TEST(JobFlagTableTest, EveryFieldOfTheJobHasExactlyOneFlag) {
  std::set<std::string> fields;
  CollectFields(*v1::JobSpec::descriptor(), "", &fields);
  std::multiset<std::string> flagged;
  for (const JobFlag& flag : JobFlags()) flagged.emplace(flag.field);
  EXPECT_EQ(std::multiset<std::string>(fields.begin(), fields.end()), flagged);
}

TEST(JobFlagTableTest, NamesAreDistinctAndFound) {
  std::set<std::string> names;
  for (const JobFlag& flag : JobFlags()) {
    EXPECT_TRUE(names.emplace(flag.name).second) << flag.name;
    EXPECT_EQ(FindJobFlag(flag.name), &flag);
  }
  EXPECT_EQ(FindJobFlag("no_such_flag"), nullptr);
}

TEST(JobFlagTableTest, FieldOfReachesIntoMessagesWithoutChangingThem) {
  v1::JobSpec job;
  job.mutable_optimizer()->set_momentum(0.5);
  const JobField field = FieldOf(*FindJobFlag("learning_rate"), &job);
  EXPECT_EQ(field.message, job.mutable_optimizer());
  EXPECT_EQ(field.descriptor->name(), "learning_rate");
  EXPECT_EQ(job.optimizer().momentum(), 0.5);
}

}  // namespace
}  // namespace capstan
