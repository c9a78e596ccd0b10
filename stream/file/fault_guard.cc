// SPDX-License-Identifier: Apache-2.0
#include "stream/file/fault_guard.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>

namespace lowtide::stream {
namespace {

// What a signal handler may touch: lock-free, and constant before main() begins.
constexpr int kCountBits = 19;  // of a slot's word; 45 bits are enough for the page numbers of 57-bit addresses
constexpr int kPageBits = 12;   // the unit, also where the system's pages are larger

struct WatchedRange {
  std::atomic<uint64_t> pages = 0;  // number of the first page, and how many; 0: free
  std::atomic<bool> is_faulted = false;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);
std::array<WatchedRange, FaultGuard::kSlots> g_watched;

// The handler that was there before, in one of two places, so that it is never written where a handler reads it.
struct PreviousHandler {
  struct sigaction action = {};
  std::atomic<bool> is_spent = false;  // SA_RESETHAND: it was to be called once, and was
};
std::array<PreviousHandler, 2> g_previous_handlers;
std::atomic<size_t> g_current_previous = 0;

std::mutex g_guard_mutex;  // guards the count and the installation
size_t g_guard_count = 0;

WatchedRange* range_at(uintptr_t address) {
  const uint64_t page = address >> kPageBits;
  for (WatchedRange& range : g_watched) {
    const uint64_t pages = range.pages.load(std::memory_order_acquire);
    const uint64_t first = pages >> kCountBits, count = pages & ((uint64_t{1} << kCountBits) - 1);
    if (page >= first && page - first < count) return &range;
  }
  return nullptr;
}

// True when the range is zeros now, and the instruction can be run again.
bool cover_with_zeros(WatchedRange& range) {
  const uint64_t pages = range.pages.load(std::memory_order_acquire);
  void* begin = reinterpret_cast<void*>((pages >> kCountBits) << kPageBits);
  const size_t bytes = (pages & ((uint64_t{1} << kCountBits) - 1)) << kPageBits;
  range.is_faulted.store(true, std::memory_order_release);
#ifdef SYS_mmap
  // Not by mmap(): ThreadSanitizer takes that for a write to the range, which races with its readers.
  return syscall(SYS_mmap, begin, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != -1;
#else
  return mmap(begin, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
#endif
}

void take_default_action(int signal, bool is_sent) {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
  if (is_sent) raise(signal);  // delivered on return; a fault happens again by itself
}

// Does what would have been done without this handler.
void pass_to_previous(int signal, siginfo_t* info, void* context) {
  PreviousHandler& previous = g_previous_handlers[g_current_previous.load(std::memory_order_acquire)];
  const struct sigaction& action = previous.action;
  const bool is_sent = info->si_code <= 0;  // by a process, and not by the processor
  const bool has_information = (action.sa_flags & SA_SIGINFO) != 0;
  const bool is_spent = (action.sa_flags & SA_RESETHAND) != 0 && previous.is_spent.exchange(true);
  if (is_spent || (!has_information && action.sa_handler == SIG_DFL)) return take_default_action(signal, is_sent);
  if (has_information) return action.sa_sigaction(signal, info, context);
  if (action.sa_handler != SIG_IGN) return action.sa_handler(signal);
  if (!is_sent) take_default_action(signal, is_sent);  // the kernel does not let a fault be ignored either
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int before = errno;
  WatchedRange* range = info->si_code > 0 ? range_at(reinterpret_cast<uintptr_t>(info->si_addr)) : nullptr;
  if (range == nullptr || !cover_with_zeros(*range)) pass_to_previous(signal, info, context);
  errno = before;
}

bool is_guard_handler(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == on_bus_error;
}

void install_handler() {
  struct sigaction found = {};
  if (sigaction(SIGBUS, nullptr, &found) != 0 || is_guard_handler(found)) return;
  // Noted before the handler can run that reads it.
  const size_t which = 1 - g_current_previous.load(std::memory_order_relaxed);
  g_previous_handlers[which].action = found;
  g_previous_handlers[which].is_spent.store(false, std::memory_order_relaxed);
  g_current_previous.store(which, std::memory_order_release);
  struct sigaction ours = {};
  ours.sa_sigaction = on_bus_error;
  ours.sa_mask = found.sa_mask;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  sigaction(SIGBUS, &ours, nullptr);
}

void restore_handler() {
  struct sigaction found = {};
  if (sigaction(SIGBUS, nullptr, &found) != 0 || !is_guard_handler(found)) return;
  const PreviousHandler& previous = g_previous_handlers[g_current_previous.load(std::memory_order_relaxed)];
  struct sigaction action = previous.action;
  if (previous.is_spent.load(std::memory_order_relaxed)) action = {};  // SIG_DFL
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace

FaultGuard::FaultGuard() {
  std::lock_guard lock(g_guard_mutex);
  if (g_guard_count++ == 0) install_handler();
}

FaultGuard::~FaultGuard() {
  std::lock_guard lock(g_guard_mutex);
  if (--g_guard_count == 0) restore_handler();
}

std::optional<size_t> FaultGuard::watch(const void* begin, size_t bytes) noexcept {
  const uint64_t count = (bytes + (uint64_t{1} << kPageBits) - 1) >> kPageBits;
  if (count == 0 || count >> kCountBits != 0) return std::nullopt;
  const uint64_t pages = (reinterpret_cast<uintptr_t>(begin) >> kPageBits) << kCountBits | count;
  for (size_t i = 0; i < kSlots; ++i) {
    uint64_t free = 0;
    if (g_watched[i].pages.load(std::memory_order_relaxed) != 0) continue;
    if (!g_watched[i].pages.compare_exchange_strong(free, pages, std::memory_order_acq_rel)) continue;
    return i;
  }
  return std::nullopt;
}

bool FaultGuard::faulted(size_t slot) noexcept { return g_watched[slot].is_faulted.load(std::memory_order_acquire); }

void FaultGuard::forget(size_t slot) noexcept {
  g_watched[slot].is_faulted.store(false, std::memory_order_relaxed);  // before another thread can take it
  g_watched[slot].pages.store(0, std::memory_order_release);
}

}  // namespace lowtide::stream
