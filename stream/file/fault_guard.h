// SPDX-License-Identifier: Apache-2.0
// Turns a fault in a mapped window into a mark instead of the end of the process.
//
// The kernel sends SIGBUS when a mapped page cannot be read: the file was truncated, the disk or the network failed. A
// library has no other way to learn of it, so this one installs a handler for the whole process while a FaultGuard
// exists. For a fault inside of a watched range the handler maps pages of zeros over that range, marks it and returns;
// the program goes on with zeros, and looks at the mark before it trusts what it has read. (libwayland guards the
// shared memory of its clients in the same way.)
//
//     FaultGuard guard;
//     if (auto slot = FaultGuard::watch(address, bytes)) { read; bool is_wrong = FaultGuard::faulted(*slot); ... }
//
// The traps:
// * The handler runs at any instruction: it takes no lock and allocates nothing. The registry of ranges is a fixed
//   array with one word for each range, because two words could be read while they change, and the handler would map
//   zeros over memory with another owner.
// * A range is forgotten before it is unmapped, because the address may have another owner right after that.
//   Only the owner of a range unmaps it, and only when no thread reads from it: so no thread can be inside of the
//   handler for that range meanwhile. Two threads that fault in one range at once both map zeros, which is harmless.
// * SIGBUS elsewhere belongs to the host program: it goes to the handler that was installed before, with or without
//   SA_SIGINFO, or to the default action, which ends the process. The last FaultGuard puts that handler back, unless
//   the host has installed another one meanwhile: that one is left alone, and may still call this one.
// * A system call that reads from such a page fails with EFAULT, without a signal.
#pragma once

#include <cstddef>
#include <optional>

namespace lowtide::stream {

class FaultGuard {
 public:
  FaultGuard();
  FaultGuard(const FaultGuard&) : FaultGuard() {}
  FaultGuard& operator=(const FaultGuard&) { return *this; }
  ~FaultGuard();

  // Ranges that are watched at once, in the whole process.
  static constexpr size_t kSlots = 1024;
  // Watches whole pages of 4 KiB (fewer than 2^19 of them), which the caller has mapped, until forget(). Nothing when
  // all slots are taken. A FaultGuard must exist all the time.
  static std::optional<size_t> watch(const void* begin, size_t bytes) noexcept;
  // True when a page of the range could not be read. From then on all of it reads as zeros.
  static bool faulted(size_t slot) noexcept;
  static void forget(size_t slot) noexcept;
};

}  // namespace lowtide::stream
