// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/resident.h"

#include <gtest/gtest.h>

namespace lowtide::tools {
namespace {

TEST(ResidentMarks, KeepNothingUnlessAsked) {
  ResidentMarks marks;
  marks.sample();
  marks.begin_stage("writing", 5);
  marks.end_phase("read");
  EXPECT_TRUE(marks.samples().empty());
  EXPECT_TRUE(marks.phases().empty());
  EXPECT_GT(marks.anonymous(), 0u);
}

TEST(ResidentMarks, ThinOutWhenTheyAreFull) {
  ResidentMarks marks;
  marks.keep_history();
  for (int i = 0; i < 5000; ++i) {
    marks.sample();
    ASSERT_LE(marks.samples().size(), 1000u);
  }
  const auto& samples = marks.samples();
  EXPECT_GE(samples.size(), 400u);
  for (size_t i = 1; i < samples.size(); ++i) EXPECT_LE(samples[i - 1].seconds, samples[i].seconds);
}

TEST(ResidentMarks, PhasesFollowEachOtherAndStagesAreInsideThem) {
  ResidentMarks marks;
  marks.keep_history();
  marks.end_phase("read");
  marks.begin_stage("scales", 100);
  marks.end_phase("shrink_weights");
  marks.begin_stage("writing", 200);
  marks.begin_stage("verifying", 300);
  marks.end_stage();
  const auto& phases = marks.phases();
  ASSERT_EQ(phases.size(), 5u);
  const char* names[] = {"read", "scales", "shrink_weights", "writing", "verifying"};
  for (size_t i = 0; i < phases.size(); ++i) EXPECT_EQ(phases[i].name, names[i]);
  EXPECT_EQ(phases[1].bytes, 100u);
  EXPECT_GE(phases[1].begin, phases[2].begin);
  EXPECT_LE(phases[1].begin + phases[1].seconds, phases[2].begin + phases[2].seconds);
  EXPECT_DOUBLE_EQ(phases[2].begin, phases[0].begin + phases[0].seconds);
}

}  // namespace
}  // namespace lowtide::tools
