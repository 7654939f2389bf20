#include "common/job/field_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "proto/job.pb.h"

namespace capstan {
namespace {

using ::testing::HasSubstr;

template <typename Spec>
absl::Status Set(Spec* spec, const std::string& name, absl::string_view text) {
  return SetFieldText(spec, *Spec::descriptor()->FindFieldByName(name), text);
}

template <typename Spec>
std::string Get(const Spec& spec, const std::string& name) {
  return FieldText(spec, *Spec::descriptor()->FindFieldByName(name));
}

TEST(FieldTextTest, EnumValuesAreReadInAnyCase) {
  v1::ConsistencySpec spec;
  EXPECT_TRUE(Set(&spec, "mode", "Async").ok());
  EXPECT_EQ(spec.mode(), v1::ConsistencySpec::ASYNC);
  EXPECT_EQ(Get(spec, "mode"), "async");
}

TEST(FieldTextTest, UnknownEnumValueNamesThePossibleOnesAndChangesNothing) {
  v1::ConsistencySpec spec;
  EXPECT_EQ(Set(&spec, "mode", "foo").message(), "expected one of bsp, ssp, async; got \"foo\"");
  EXPECT_FALSE(Set(&spec, "mode", "mode_unspecified").ok());
  EXPECT_FALSE(spec.has_mode());
}

TEST(FieldTextTest, SizesTakeBinarySuffixes) {
  v1::SchedulerSpec spec;
  const struct {
    const char* text;
    uint64_t bytes;
  } cases[] = {{"4096", 4096},  {"4K", 4096},         {"4KiB", 4096}, {"1MiB", 1 << 20},
               {"2m", 2 << 20}, {"1Gib", 1ull << 30}, {"0", 0}};
  for (const auto& test : cases) {
    ASSERT_TRUE(Set(&spec, "slice_bytes", test.text).ok()) << test.text;
    EXPECT_EQ(spec.slice_bytes(), test.bytes) << test.text;
  }
}

TEST(FieldTextTest, SizesThatAreNoneOrTooLargeAreRefused) {
  v1::SchedulerSpec spec;
  for (const char* text : {"", "K", "1MK", "1T", "-1", "1.5M", "99999999999G"}) {
    EXPECT_THAT(std::string(Set(&spec, "slice_bytes", text).message()),
                HasSubstr("expected a size in bytes"))
        << text;
  }
}

TEST(FieldTextTest, SizesAreWrittenWithTheLargestExactUnit) {
  EXPECT_EQ(FormatSize(0), "0");
  EXPECT_EQ(FormatSize(1000), "1000");
  EXPECT_EQ(FormatSize(1536), "1536");
  EXPECT_EQ(FormatSize(64 << 10), "64KiB");
  EXPECT_EQ(FormatSize(16 << 20), "16MiB");
  EXPECT_EQ(FormatSize(3ull << 30), "3GiB");
}

TEST(FieldTextTest, ListReplacesWhatWasThere) {
  v1::ModelSpec spec;
  spec.add_hidden(1);
  ASSERT_TRUE(Set(&spec, "hidden", "128,64").ok());
  EXPECT_EQ(Get(spec, "hidden"), "128,64");
  ASSERT_TRUE(Set(&spec, "hidden", "").ok());
  EXPECT_EQ(spec.hidden_size(), 0);
}

TEST(FieldTextTest, MalformedListChangesNothing) {
  v1::ModelSpec spec;
  spec.add_hidden(1);
  EXPECT_FALSE(Set(&spec, "hidden", "128,x").ok());
  EXPECT_EQ(Get(spec, "hidden"), "1");
}

TEST(FieldTextTest, NumbersOfEachKindAreReadAndWritten) {
  v1::JobSpec job;
  EXPECT_TRUE(Set(&job, "seed", "18446744073709551615").ok());
  EXPECT_EQ(Get(job, "seed"), "18446744073709551615");
  EXPECT_TRUE(Set(job.mutable_data(), "label_column", "-1").ok());
  EXPECT_EQ(Get(job.data(), "label_column"), "-1");
  EXPECT_TRUE(Set(job.mutable_consistency(), "staleness", "-3").ok());
  EXPECT_EQ(Get(job.consistency(), "staleness"), "-3");
  EXPECT_TRUE(Set(job.mutable_data(), "classes", "7").ok());
  EXPECT_EQ(Get(job.data(), "classes"), "7");
  EXPECT_TRUE(Set(job.mutable_optimizer(), "learning_rate", "1e-3").ok());
  EXPECT_EQ(Get(job.optimizer(), "learning_rate"), "0.001");
  EXPECT_TRUE(Set(job.mutable_data(), "has_header", "true").ok());
  EXPECT_EQ(Get(job.data(), "has_header"), "true");
  for (const char* off : {"off", "Off", "false", "no", "0"}) {
    EXPECT_TRUE(Set(job.mutable_data(), "has_header", off).ok()) << off;
    EXPECT_EQ(Get(job.data(), "has_header"), "false") << off;
    EXPECT_TRUE(Set(job.mutable_data(), "has_header", "on").ok());
    EXPECT_EQ(Get(job.data(), "has_header"), "true");
  }
  EXPECT_TRUE(Set(job.mutable_data(), "path", "a b").ok());
  EXPECT_EQ(Get(job.data(), "path"), "a b");
}

TEST(FieldTextTest, NumbersThatDifferHaveTextsThatDiffer) {
  v1::OptimizerSpec optimizer;
  for (const char* text : {"0.1", "0.10000001", "0.30000000000000004", "1e-08", "1e+300"}) {
    EXPECT_TRUE(Set(&optimizer, "learning_rate", text).ok());
    EXPECT_EQ(Get(optimizer, "learning_rate"), text);
  }
}

TEST(FieldTextTest, TextThatIsNoNumberOfTheKindIsRefused) {
  v1::JobSpec job;
  EXPECT_FALSE(Set(&job, "seed", "-1").ok());
  EXPECT_FALSE(Set(job.mutable_data(), "label_column", "x").ok());
  EXPECT_FALSE(Set(job.mutable_consistency(), "staleness", "1.5").ok());
  EXPECT_EQ(Set(job.mutable_data(), "classes", "4294967296").message(),
            "expected a whole number from 0 to 4294967295; got \"4294967296\"");
  EXPECT_FALSE(Set(job.mutable_optimizer(), "learning_rate", "fast").ok());
  EXPECT_FALSE(Set(job.mutable_data(), "has_header", "maybe").ok());
}

TEST(FieldTextTest, DefaultOfTheSchemaIsWrittenForAnUnsetField) {
  EXPECT_EQ(Get(v1::SchedulerSpec(), "slice_bytes"), "1MiB");
  EXPECT_EQ(Get(v1::OptimizerSpec(), "type"), "momentum");
}

TEST(FieldTextTest, ListsOfPairsAreReadAndWrittenAlike) {
  v1::ConsistencySpec consistency;
  const auto& field = *v1::ConsistencySpec::descriptor()->FindFieldByName("table_staleness");
  ASSERT_TRUE(SetFieldText(&consistency, field, "fc1.weight:2,fc1.bias:0").ok());
  ASSERT_EQ(consistency.table_staleness_size(), 2);
  EXPECT_EQ(consistency.table_staleness(0).table(), "fc1.weight");
  EXPECT_EQ(consistency.table_staleness(0).staleness(), 2);
  EXPECT_EQ(FieldText(consistency, field), "fc1.weight:2,fc1.bias:0");
  for (const char* bad : {"fc1.weight", ":2", "fc1.weight:two", "fc1.weight:2,"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(SetFieldText(&consistency, field, bad))) << bad;
  }
  EXPECT_EQ(FieldText(consistency, field), "fc1.weight:2,fc1.bias:0") << "left as it was";
  ASSERT_TRUE(SetFieldText(&consistency, field, "fc2.bias:1").ok());
  EXPECT_EQ(FieldText(consistency, field), "fc2.bias:1") << "the later list replaces the earlier";
  ASSERT_TRUE(SetFieldText(&consistency, field, "").ok());
  EXPECT_TRUE(consistency.table_staleness().empty());
}

TEST(FieldTextTest, TheTextOfAPairMayHaveColonsAndItsNameDots) {
  v1::CodecSpec codec;
  const auto& field = *v1::CodecSpec::descriptor()->FindFieldByName("table_codec");
  ASSERT_TRUE(SetFieldText(&codec, field, "fc1.weight:topk:0.01:int8,b:float32").ok());
  ASSERT_EQ(codec.table_codec_size(), 2);
  EXPECT_EQ(codec.table_codec(0).table(), "fc1.weight");
  EXPECT_EQ(codec.table_codec(0).codec(), "topk:0.01:int8");
  EXPECT_EQ(codec.table_codec(1).table(), "b");
  EXPECT_EQ(codec.table_codec(1).codec(), "float32");
  EXPECT_EQ(FieldText(codec, field), "fc1.weight:topk:0.01:int8,b:float32");
  for (const char* bad : {"fc1.weight", ":int8", "fc1.weight:", "fc1.weight:int8,"}) {
    EXPECT_EQ(SetFieldText(&codec, field, bad),
              absl::InvalidArgumentError(absl::StrCat(
                  "expected NAME:TEXT between commas, such as fc1.weight:int8,fc1.bias:float32; ",
                  "got \"", bad, "\"")));
  }
  EXPECT_EQ(codec.table_codec_size(), 2) << "left as it was";
  ASSERT_TRUE(SetFieldText(&codec, field, "").ok());
  EXPECT_TRUE(codec.table_codec().empty());
}

}  // namespace
}  // namespace capstan
