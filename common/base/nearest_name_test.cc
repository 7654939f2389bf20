#include "common/base/nearest_name.h"

#include <gtest/gtest.h>

namespace capstan {
namespace {

const std::vector<std::string> kNames = {"job",         "learning_rate", "num_servers",
                                         "num_workers", "run_dir",       "workers_per_node"};

TEST(DidYouMeanTest, NamesTheNearest) {
  EXPECT_EQ(DidYouMean("jobb", kNames, "--"), " (did you mean --job?)");
  EXPECT_EQ(DidYouMean("learning_rat", kNames), " (did you mean learning_rate?)");
  EXPECT_EQ(DidYouMean("num_worker", kNames), " (did you mean num_workers?)");
  EXPECT_EQ(DidYouMean("rundir", kNames), " (did you mean run_dir?)");
  EXPECT_EQ(DidYouMean("lerning-rate", kNames), " (did you mean learning_rate?)");
  EXPECT_EQ(DidYouMean("workers", kNames), " (did you mean workers_per_node?)");
  EXPECT_EQ(DidYouMean("lr", {"l1", "learning_rate"}), " (did you mean learning_rate?)")
      << "the first letters of its words";
  EXPECT_EQ(DidYouMean("ojb", {"job"}), " (did you mean job?)")
      << "two letters have changed places";
}

TEST(DidYouMeanTest, TheEndOfAPathIsNearest) {
  const std::vector<std::string> names = {"registration_seconds",
                                          "momentum",
                                          "field=limits.registrations_per_second",
                                          "field=codec.dgc_momentum",
                                          "field=codec.min_bytes",
                                          "field=data.synthetic_ctr.samples"};
  EXPECT_EQ(DidYouMean("registrations_per_second", names, "--"),
            " (did you mean --field=limits.registrations_per_second?)");
  EXPECT_EQ(DidYouMean("dgc_momentum", names), " (did you mean field=codec.dgc_momentum?)");
  EXPECT_EQ(DidYouMean("codec_min_bytes", names), " (did you mean field=codec.min_bytes?)");
  EXPECT_EQ(DidYouMean("ctr_samples", names), " (did you mean field=data.synthetic_ctr.samples?)");
  EXPECT_EQ(DidYouMean("bytes", names), "");  // of a word, not of the path
}

TEST(DidYouMeanTest, NamesNoneThatIsUnlike) {
  for (const char* word : {"", "x", "epochs", "verbosity", "a_name_of_something_else"}) {
    EXPECT_EQ(DidYouMean(word, kNames), "") << word;
  }
  EXPECT_EQ(DidYouMean(std::string(100'000, 'j'), kNames), "");
  EXPECT_EQ(DidYouMean("job", {}), "");
}

}  // namespace
}  // namespace capstan
