// SPDX-License-Identifier: Apache-2.0
// Blocks that are in use neither overlap nor change, whatever is taken and put back around them, and memory of blocks
// that nobody uses goes back to the system.
#include "tools/lowtide/small_blocks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tools/lowtide/resident.h"

namespace lowtide::tools {
namespace {

// Each has addresses of its own, and is large.
struct SmallBlocksTest : testing::Test {
  std::unique_ptr<SmallBlocks> blocks = std::make_unique<SmallBlocks>();
};

struct Taken {
  std::byte* begin;
  size_t bytes;
  std::byte mark;
};

void take_and_put_back(SmallBlocks& blocks, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Taken> taken;
  auto put_back = [&](size_t i) {
    std::swap(taken[i], taken.back());
    const Taken block = taken.back();
    taken.pop_back();
    for (size_t at = 0; at < block.bytes; ++at) ASSERT_EQ(block.begin[at], block.mark);
    ASSERT_TRUE(blocks.put_back(block.begin));
  };
  for (int turn = 0; turn < 60'000; ++turn) {
    const bool grows = turn / 5000 % 2 == 0;
    if (taken.empty() || random() % 8 < (grows ? 6 : 2)) {
      const size_t bytes = random() % 3 == 0 ? random() % (SmallBlocks::kLargest + 1) : random() % 65;
      auto* begin = static_cast<std::byte*>(blocks.take(bytes));
      ASSERT_NE(begin, nullptr);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(begin) % (bytes > 8 ? 16 : 8), 0U) << bytes;
      const auto mark = static_cast<std::byte>(random());
      std::memset(begin, static_cast<int>(mark), bytes);
      taken.push_back({begin, bytes, mark});
    } else {
      ASSERT_NO_FATAL_FAILURE(put_back(random() % taken.size()));
    }
  }
  while (!taken.empty()) ASSERT_NO_FATAL_FAILURE(put_back(taken.size() - 1));
}

TEST_F(SmallBlocksTest, BlocksInUseKeepTheirBytes) { take_and_put_back(*blocks, 1); }

TEST_F(SmallBlocksTest, ThreadsTakeAndPutBackAtOnce) {
  std::vector<std::thread> threads;
  for (unsigned seed = 2; seed < 6; ++seed) threads.emplace_back([this, seed] { take_and_put_back(*blocks, seed); });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(SmallBlocksTest, BlocksOfOthersAreNotTaken) {
  const auto other = std::make_unique<int>(3);
  EXPECT_FALSE(blocks->put_back(other.get()));
  void* own = blocks->take(24);
  EXPECT_FALSE(blocks->put_back(other.get()));
  EXPECT_TRUE(blocks->put_back(own));
}

#ifndef __SANITIZE_THREAD__  // what it keeps of each byte counts as memory of the process, and stays
TEST_F(SmallBlocksTest, MemoryOfOneSizeBecomesThatOfAnother) {
  constexpr size_t kBytes = 16 << 20, kSlack = 3 << 20;
  std::vector<void*> taken(kBytes / 16);
  const uint64_t before = resident().anonymous;
  if (before == 0) GTEST_SKIP() << "the system does not tell";
  for (const size_t size : {16, 112, 2048}) {
    for (size_t i = 0; i < kBytes / size; ++i) std::memset(taken[i] = blocks->take(size), 1, size);
    EXPECT_GT(resident().anonymous, before + kBytes - kSlack) << size;
    EXPECT_LT(resident().anonymous, before + kBytes + kSlack) << size;
    for (size_t i = 0; i < kBytes / size; ++i) blocks->put_back(taken[i]);
    EXPECT_LT(resident().anonymous, before + kSlack) << size;
  }
}
#endif

}  // namespace
}  // namespace lowtide::tools
