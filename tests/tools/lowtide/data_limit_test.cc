// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/data_limit.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <new>
#include <system_error>
#include <thread>

namespace lowtide::tools {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// The result of `work` in a child process, whose limits do not affect the test's.
bool in_child(const std::function<bool()>& work) {
  const pid_t child = fork();
  if (child == 0) _exit(work() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool can_allocate(uint64_t bytes) {
  try {
    auto memory = std::make_unique<volatile char[]>(bytes);
    memory[bytes - 1] = 1;
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

class DataLimits : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers allocate beside what they watch";
#endif
  }
};

TEST_F(DataLimits, AllocationsBeyondTheLimitFail) {
  EXPECT_TRUE(in_child([] {
    DataLimit().leave(32 * kMiB);
    return can_allocate(24 * kMiB) && !can_allocate(64 * kMiB) && can_allocate(24 * kMiB);
  }));
}

TEST_F(DataLimits, ALeaseCountsAgainstTheLimit) {
  EXPECT_TRUE(in_child([] {
    DataLimit().leave(8 * kMiB);
    return mmap(nullptr, 16 * kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
  }));
}

TEST_F(DataLimits, TheLimitMayBeLoweredAndRaised) {
  EXPECT_TRUE(in_child([] {
    const DataLimit limit;
    limit.leave(8 * kMiB);
    const bool small = can_allocate(32 * kMiB);
    limit.leave(64 * kMiB);
    const bool large = can_allocate(32 * kMiB);
    limit.leave(8 * kMiB);
    return !small && large && !can_allocate(32 * kMiB);
  }));
}

TEST_F(DataLimits, TheInitialLimitIsRestored) {
  EXPECT_TRUE(in_child([] {
    const DataLimit at_start;
    DataLimit().leave(8 * kMiB);
    const bool small = can_allocate(32 * kMiB);
    at_start.restore();
    return !small && can_allocate(32 * kMiB);
  }));
}

TEST_F(DataLimits, NeverExceedsTheInitialLimit) {
  EXPECT_TRUE(in_child([] {
    DataLimit().leave(16 * kMiB);
    DataLimit().leave(1024 * kMiB);
    return !can_allocate(64 * kMiB);
  }));
}

TEST_F(DataLimits, ThreadsHaveRoomForTheirStacks) {
  EXPECT_TRUE(in_child([] {
    constexpr int kThreads = 5;
    DataLimit().leave(stack_bytes(kThreads) + kMiB);
    try {
      std::vector<std::jthread> others;
      for (int i = 1; i < kThreads; ++i) others.emplace_back([] { usleep(1000); });
      return true;
    } catch (const std::system_error&) {
      return false;
    }
  }));
  EXPECT_EQ(stack_bytes(1), 0u);
}

}  // namespace
}  // namespace lowtide::tools
