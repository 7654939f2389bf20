#include "common/job/job_fingerprint.h"

#include <gtest/gtest.h>

namespace capstan {
namespace {

TEST(JobFingerprintTest, EqualJobsHaveEqualFingerprints) {
  v1::JobSpec a, b;
  a.set_name("a");
  a.mutable_training()->set_steps(5);
  b.mutable_training()->set_steps(5);
  b.set_name("a");
  EXPECT_EQ(JobFingerprint(a), JobFingerprint(b));
}

TEST(JobFingerprintTest, AnyFieldChangesIt) {
  v1::JobSpec a, b;
  b.mutable_consistency()->set_staleness(1);
  EXPECT_NE(JobFingerprint(a), JobFingerprint(b));
}

// XXH3-64 of the empty input with seed 0, from xxHash's own test suite.
TEST(JobFingerprintTest, EmptyJobHasThePublishedHashOfNoBytes) {
  EXPECT_EQ(JobFingerprint(v1::JobSpec()), 0x2d06800538d394c2u);
}

}  // namespace
}  // namespace capstan
