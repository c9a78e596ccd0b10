// SPDX-License-Identifier: Apache-2.0
#include "stream/file/budget.h"

#include <thread>
#include <vector>

#include "tests/stream/scratch.h"

namespace lowtide::stream {
namespace {

constexpr uint64_t kPage = 4096;

TEST(Budget, ReturnedLeasesLowerUseAndKeepThePeak) {
  Budget budget(10 * kPage);
  {
    Budget::Lease a = budget.take(3 * kPage, "a");
    Budget::Lease b = budget.take(1, "b");
    EXPECT_EQ(b.size(), 1u);
    EXPECT_EQ(budget.available(), 6 * kPage);  // whole pages are what a lease costs
    a.data()[3 * kPage - 1] = std::byte{7};
    Budget::Lease moved = std::move(a);
    EXPECT_EQ(moved.data()[3 * kPage - 1], std::byte{7});
    EXPECT_EQ(a.data(), nullptr);
  }
  EXPECT_EQ(budget.available(), budget.limit());
  EXPECT_EQ(budget.high_water(), 4 * kPage);
}

TEST(Budget, ErrorsNameTheSmallestSufficientLimit) {
  Budget budget(4 * kPage);
  Budget::Lease held = budget.take(kPage, "held");
  expect_error(Code::kBudget, "tile of 'w' takes 20480 bytes", [&] { budget.take(5 * kPage, "tile of 'w'"); });
  expect_error(Code::kBudget, "a budget of 24576 would do", [&] { budget.take(5 * kPage, "x"); });
  expect_error(Code::kBudget, "x", [&] { budget.take(UINT64_MAX, "x"); });
  EXPECT_EQ(budget.available(), 3 * kPage);
  EXPECT_EQ(budget.take(0, "nothing").data(), nullptr);
}

TEST(Budget, AFailedAllocationIsABudgetError) {
  Budget budget(UINT64_MAX);
  expect_error(Code::kBudget, "the system has no", [&] { budget.take(uint64_t{1} << 60, "x"); });
  EXPECT_EQ(budget.available(), UINT64_MAX);
}

TEST(Budget, SharesCountAgainstTheirParent) {
  Budget budget(16 * kPage);
  {
    Budget first(8 * kPage, budget), second(8 * kPage, budget);
    Budget::Lease a = first.take(3 * kPage, "a"), b = second.take(5 * kPage, "b");
    EXPECT_EQ(budget.available(), 8 * kPage);
    expect_error(Code::kBudget, "c", [&] { first.take(6 * kPage, "c"); });
  }
  EXPECT_EQ(budget.available(), budget.limit());
  EXPECT_EQ(budget.high_water(), 8 * kPage);
}

TEST(Budget, ThreadsShareIt) {
  Budget budget(64 * kPage);
  std::vector<std::thread> threads;
  for (uint64_t i = 1; i <= 4; ++i) {
    threads.emplace_back([&, i] {
      for (int n = 0; n < 200; ++n) budget.take(i * kPage, "tile").data()[0] = std::byte{1};
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.available(), budget.limit());
  EXPECT_LE(budget.high_water(), 10 * kPage);
}

}  // namespace
}  // namespace lowtide::stream
