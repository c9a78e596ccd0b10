// SPDX-License-Identifier: Apache-2.0
#include "stream/file/window.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <numeric>
#include <random>
#include <thread>

#include "stream/file/out_file.h"
#include "stream/onnx/reader.h"
#include "stream/recipe/recipe_reader.h"
#include "tests/stream/scratch.h"

namespace lowtide::stream {
namespace {

constexpr uint64_t kFilePageBytes = 4096;
constexpr uint64_t kMebibyte = 1 << 20;

std::string window_pattern(size_t bytes) {
  std::string out(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<char>(i * 31 + i / 251 + 1);
  return out;
}

std::string_view window_text(const Window& window) {
  return {reinterpret_cast<const char*>(window.data()), window.span().size()};
}

TEST(Window, HoldsTheBytesOfAnyRange) {
  ScratchFolder folder;
  const std::string bytes = window_pattern(5 * kFilePageBytes + 77);
  write_file(folder / "a", bytes);
  auto source = open_file(folder / "a");
  Budget budget(kMebibyte);
  for (auto [offset, count] : std::vector<std::pair<uint64_t, uint64_t>>{{0, 1},
                                                                         {0, bytes.size()},
                                                                         {1, kFilePageBytes},
                                                                         {kFilePageBytes - 1, 2},
                                                                         {3 * kFilePageBytes + 5, 2 * kFilePageBytes},
                                                                         {bytes.size() - 1, 1}}) {
    const Window window = source->window(offset, count, budget);
    ASSERT_TRUE(window);
    EXPECT_EQ(window_text(window), bytes.substr(offset, count));
    EXPECT_TRUE(window.holds(*source, offset, count));
    EXPECT_FALSE(window.holds(*source, offset, count + 1));
    EXPECT_EQ(budget.limit() - budget.available(), Window::cost(offset, count));
    window.check();
  }
  EXPECT_EQ(budget.available(), budget.limit());
  EXPECT_FALSE(source->window(5, 0, budget));
  expect_error(Code::kMalformed, "the file ends at byte", [&] { source->window(1, bytes.size(), budget); });
}

TEST(Window, ThereIsNoneWhereNothingIsMapped) {
  ScratchFolder folder;
  write_file(folder / "a", window_pattern(3 * kFilePageBytes));
  Budget budget(2 * kFilePageBytes);
  EXPECT_FALSE(open_file(folder / "a", Access::kRead)->window(0, 10, budget));
  EXPECT_FALSE(memory_source(to_bytes("abc"), "memory")->window(0, 3, budget));
  EXPECT_FALSE(open_file(folder / "a")->window(0, 2 * kFilePageBytes + 1, budget));  // beyond the budget
  EXPECT_EQ(budget.available(), budget.limit());
}

TEST(Window, OutlivesTheDescriptor) {
  ScratchFolder folder;
  write_file(folder / "a", window_pattern(kFilePageBytes));
  Budget budget(kMebibyte);
  Window window;
  {
    auto source = open_file(folder / "a");
    window = source->window(0, kFilePageBytes, budget);
    std::filesystem::remove(folder / "a");
  }
  EXPECT_EQ(window_text(window), window_pattern(kFilePageBytes));
}

TEST(Window, IsZerosAndAnErrorWhenTheFileShrinks) {
  ScratchFolder folder;
  write_file(folder / "a", window_pattern(8 * kFilePageBytes));
  auto source = open_file(folder / "a");
  Budget budget(kMebibyte);
  const Window window = source->window(100, 7 * kFilePageBytes, budget),
               other = source->window(0, kFilePageBytes, budget);
  std::filesystem::resize_file(folder / "a", kFilePageBytes);
  const int64_t sum = std::accumulate(window.span().begin() + 2 * kFilePageBytes, window.span().end(), int64_t{0},
                                      [](int64_t all, std::byte b) { return all + static_cast<int64_t>(b); });
  EXPECT_EQ(sum, 0);
  expect_error(Code::kIo, "became shorter", [&] { window.check(); });
  expect_error(Code::kIo, (folder / "a").string(), [&] { window.check(); });
  other.check();  // its page is there still
  EXPECT_EQ(window_text(other), window_pattern(kFilePageBytes));
}

TEST(Window, CannotBeginInAFileThatHasShrunk) {
  ScratchFolder folder;
  write_file(folder / "a", window_pattern(8 * kFilePageBytes));
  auto source = open_file(folder / "a");
  std::filesystem::resize_file(folder / "a", kFilePageBytes);
  Budget budget(kMebibyte);
  expect_error(Code::kIo, "became shorter", [&] { source->window(0, 8 * kFilePageBytes, budget); });
  EXPECT_EQ(budget.available(), budget.limit());
}

TEST(Window, FaultsOfManyThreadsAtOnce) {
  ScratchFolder folder;
  constexpr int kThreads = 8, kRounds = 20;
  Budget budget(64 * kMebibyte);
  for (int round = 0; round < kRounds; ++round) {
    write_file(folder / "a", window_pattern(64 * kFilePageBytes));
    auto source = open_file(folder / "a");
    const Window shared =
        source->window(0, 64 * kFilePageBytes, budget);  // all threads fault in it, and each in its own
    std::atomic<int> waiting = kThreads, caught = 0;
    std::atomic<bool> is_cut = false;
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < kThreads; ++i)
        threads.emplace_back([&, i] {
          const Window own = source->window(static_cast<uint64_t>(i) * 8 * kFilePageBytes, 8 * kFilePageBytes, budget);
          // The kernel takes the pages away after it has changed the size, so the size does not tell when to go on.
          if (--waiting == 0) {
            std::filesystem::resize_file(folder / "a", 0);
            is_cut = true;
          }
          while (!is_cut) std::this_thread::yield();
          volatile std::byte sink{};
          for (uint64_t at = 0; at < 64 * kFilePageBytes; at += kFilePageBytes) sink = shared.data()[at];
          for (uint64_t at = 0; at < 8 * kFilePageBytes; at += kFilePageBytes) sink = own.data()[at];
          static_cast<void>(sink);
          caught += error_of([&] { own.check(); }).has_value() && error_of([&] { shared.check(); }).has_value();
        });
    }
    EXPECT_EQ(caught, kThreads);
  }
  EXPECT_EQ(budget.available(), budget.limit());
}

// What the host program does with SIGBUS; g_info is false when it was called without information.
std::atomic<int> g_host_calls;
std::atomic<const void*> g_host_address;
sigjmp_buf g_back;

void host_handler(int, siginfo_t* info, void*) {
  ++g_host_calls;
  g_host_address = info->si_addr;
  siglongjmp(g_back, 1);
}
void plain_host_handler(int) {
  ++g_host_calls;
  siglongjmp(g_back, 1);
}

class HostHandler : public testing::Test {
 protected:
  HostHandler() { sigaction(SIGBUS, nullptr, &before_); }
  ~HostHandler() override { sigaction(SIGBUS, &before_, nullptr); }

  void install(void (*handler)(int, siginfo_t*, void*)) {
    struct sigaction action = {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGBUS, &action, nullptr);
  }
  static struct sigaction installed() {
    struct sigaction action = {};
    sigaction(SIGBUS, nullptr, &action);
    return action;
  }
  // Reads behind the end of a file that nobody watches; the address.
  const void* fault_elsewhere() {
    write_file(folder_ / "elsewhere", "x");
    const int file = open((folder_ / "elsewhere").c_str(), O_RDONLY);
    auto* pages = static_cast<char*>(mmap(nullptr, 2 * kFilePageBytes, PROT_READ, MAP_SHARED, file, 0));
    close(file);
    if (sigsetjmp(g_back, 1) == 0) static_cast<void>(*static_cast<volatile char*>(pages + kFilePageBytes));
    munmap(pages, 2 * kFilePageBytes);
    return pages + kFilePageBytes;
  }

  ScratchFolder folder_;
  struct sigaction before_ = {};
};

TEST_F(HostHandler, IsCalledForFaultsElsewhereAndComesBack) {
  install(host_handler);
  write_file(folder_ / "a", window_pattern(2 * kFilePageBytes));
  g_host_calls = 0;
  {
    Budget budget(kMebibyte);
    auto source = open_file(folder_ / "a");
    EXPECT_NE(installed().sa_sigaction, host_handler);
    const Window window = source->window(0, 2 * kFilePageBytes, budget);
    const void* address = fault_elsewhere();
    EXPECT_EQ(g_host_calls, 1);
    EXPECT_EQ(g_host_address, address);
    window.check();
    std::filesystem::resize_file(folder_ / "a", 0);
    const std::byte first = *static_cast<const volatile std::byte*>(window.data());
    EXPECT_EQ(first, std::byte{0});
    EXPECT_EQ(g_host_calls, 1);  // ours
    expect_error(Code::kIo, "became shorter", [&] { window.check(); });
  }
  EXPECT_EQ(installed().sa_sigaction, host_handler);
}

TEST_F(HostHandler, WithoutInformationIsCalledToo) {
  struct sigaction plain = {};
  plain.sa_handler = plain_host_handler;
  sigaction(SIGBUS, &plain, nullptr);
  g_host_calls = 0;
  {
    FaultGuard guard, second = guard;
    fault_elsewhere();
    EXPECT_EQ(g_host_calls, 1);
  }
  EXPECT_EQ(installed().sa_handler, plain_host_handler);
  EXPECT_EQ(installed().sa_flags & SA_SIGINFO, 0);
}

TEST_F(HostHandler, ThatIsInstalledLaterStays) {
  {
    FaultGuard guard;
    install(host_handler);
  }
  EXPECT_EQ(installed().sa_sigaction, host_handler);
  FaultGuard again;
  EXPECT_NE(installed().sa_sigaction, host_handler);
}

TEST_F(HostHandler, IgnoredSignalsOfOthersStayIgnored) {
  struct sigaction ignoring = {};
  ignoring.sa_handler = SIG_IGN;
  sigaction(SIGBUS, &ignoring, nullptr);
  FaultGuard guard;
  raise(SIGBUS);  // a signal, and not a fault
}

using HostHandlerDeathTest = HostHandler;

TEST_F(HostHandlerDeathTest, TheDefaultIsTheEndOfTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto die = [&](void (*handler)(int)) {
    struct sigaction action = {};
    action.sa_handler = handler;
    sigaction(SIGBUS, &action, nullptr);
    FaultGuard guard;
    fault_elsewhere();
  };
  EXPECT_EXIT(die(SIG_DFL), testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(die(SIG_IGN), testing::KilledBySignal(SIGBUS), "");  // the kernel ignores no fault
}

TEST(FaultGuard, SlotsAreGivenBack) {
  FaultGuard guard;
  std::vector<size_t> slots;
  const auto* page = reinterpret_cast<const void*>(uintptr_t{1} << 40);
  while (auto slot = FaultGuard::watch(page, kFilePageBytes)) slots.push_back(*slot);
  EXPECT_EQ(slots.size(), FaultGuard::kSlots);
  for (size_t slot : slots) FaultGuard::forget(slot);
  EXPECT_FALSE(FaultGuard::watch(page, 0));
  EXPECT_FALSE(FaultGuard::watch(page, uint64_t{1} << 31));  // more pages than a slot can say
}

// A recipe of some steps over stored data at an offset that is no multiple of anything.
RecipeRef recipe_of_some_steps(std::mt19937& random, const std::shared_ptr<Source>& source) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const DType dtype = std::array{DType::kFloat32, DType::kFloat16, DType::kInt8, DType::kInt64}[below(4)];
  Shape dims;
  for (int i = 0, rank = 1 + below(4); i < rank; ++i) dims.push_back(1 + below(i == 0 ? 300 : 40));
  uint64_t bytes = file_bytes(dtype, element_count(dims));
  while (bytes > source->size() / 2) {
    dims[0] = std::max<Dim>(dims[0] / 2, 1);
    dims.back() = std::max<Dim>(dims.back() / 2, 1);
    bytes = file_bytes(dtype, element_count(dims));
  }
  RecipeRef out = recipe::stored(
      source, {{.offset = random() % (source->size() - bytes), .bytes = bytes, .elements = element_count(dims)}}, dtype,
      dims);
  for (int step = below(4); step >= 0; --step) {
    const int rank = static_cast<int>(out->dims.size());
    switch (below(7)) {
      case 0:
      case 1: {
        Perm perm(static_cast<size_t>(rank));
        std::iota(perm.begin(), perm.end(), 0);
        std::shuffle(perm.begin(), perm.end(), random);
        out = recipe::permute(out, perm);
        break;
      }
      case 2:
        out = recipe::reshape(out, {static_cast<Dim>(out->elements())});
        break;
      case 3:
        out = recipe::cast(out, std::array{DType::kFloat32, DType::kFloat16, DType::kInt32}[below(3)]);
        break;
      case 4:
        out = recipe::concat({out, out}, below(rank));
        break;
      case 5:
        out = recipe::binary(Binary::kMul, out, out);
        break;
      default: {
        std::vector<int64_t> begin, size, stride;
        for (Dim extent : out->dims) {
          begin.push_back(extent - 1);
          size.push_back((extent + 1) / 2);
          stride.push_back(size.back() > 1 ? -2 : 1);
          if (size.back() == 1) begin.back() = 0;
        }
        out = recipe::slice(out, begin, size, stride);
      }
    }
  }
  return out;
}

TEST(Access, BothWaysOfReadingGiveEqualBytes) {
  ScratchFolder folder;
  write_file(folder / "a", window_pattern(2 * kMebibyte));
  auto mapped = open_file(folder / "a"), read = open_file(folder / "a", Access::kRead);
  for (unsigned seed = 0; seed < 150; ++seed) {
    std::mt19937 here(seed), there(seed);
    const RecipeRef a = recipe_of_some_steps(here, mapped), b = recipe_of_some_steps(there, read);
    for (uint64_t limit : {8 * kMebibyte, kMebibyte / 2}) {
      Budget budget(limit);
      const uint64_t lane = static_cast<uint64_t>(lane_bytes(a->dtype)), bytes = a->elements() * lane;
      std::vector<std::byte> by_map(bytes), by_read(bytes);
      RecipeReader(a, budget).read(0, a->elements(), by_map.data());
      RecipeReader(b, budget).read(0, b->elements(), by_read.data());
      ASSERT_TRUE(by_map == by_read) << "seed " << seed << ", budget " << limit;
      EXPECT_EQ(budget.available(), limit);
    }
  }
}

TEST(Access, FaultsInARecipeAreErrorsOfTheFile) {
  ScratchFolder folder;
  write_file(folder / "a", window_pattern(2 * kMebibyte));
  auto source = open_file(folder / "a");
  Budget budget(8 * kMebibyte);
  RecipeRef stored =
      recipe::stored(source, {{.offset = 3, .bytes = kMebibyte, .elements = kMebibyte / 4}}, DType::kInt32, {512, 512});
  RecipeRef divided = recipe::binary(Binary::kDiv, recipe::permute(stored, {1, 0}), recipe::permute(stored, {1, 0}));
  std::filesystem::resize_file(folder / "a", kFilePageBytes);
  std::vector<std::byte> out(kMebibyte);
  for (const RecipeRef& recipe : {recipe::permute(stored, {1, 0}), divided})
    EXPECT_EQ(code_of([&] { RecipeReader(recipe, budget).read(0, kMebibyte / 4, out.data()); }), Code::kIo);
  EXPECT_EQ(code_of([&] { read_onnx(source, {}, budget); }), Code::kIo);
}

}  // namespace
}  // namespace lowtide::stream
