// SPDX-License-Identifier: Apache-2.0
#include "stream/file/budget.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace lowtide::stream {
namespace {

// Smaller leases are taken from malloc. A model of many nodes has many small weights: a mapping for each costs a page
// fault, an interrupt of the other threads, and waits for them while they map.
constexpr uint64_t kLeastMappedLease = 64 * 1024;
constexpr uint64_t kLeaseAlignment = 64;  // of a small lease: a cache line

// What a lease really costs: whole pages.
uint64_t in_pages(uint64_t bytes) {
  static const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return bytes > UINT64_MAX - page ? UINT64_MAX : (bytes + page - 1) / page * page;
}

}  // namespace

Budget::Charge::Charge(Charge&& other) noexcept
    : owner_(std::exchange(other.owner_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Budget::Charge& Budget::Charge::operator=(Charge&& other) noexcept {
  std::swap(owner_, other.owner_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Budget::Charge::~Charge() {
  if (owner_ != nullptr) owner_->give_back(bytes_);
}

Budget::Lease::Lease(Lease&& other) noexcept
    : charge_(std::move(other.charge_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Budget::Lease& Budget::Lease::operator=(Lease&& other) noexcept {
  std::swap(charge_, other.charge_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Budget::Lease::~Lease() {
  if (data_ == nullptr) return;
  if (size_ < kLeastMappedLease)
    std::free(data_);
  else
    munmap(data_, in_pages(size_));
}

void Budget::Lease::discard(uint64_t offset) {
  if (size_ < kLeastMappedLease) return;
  const uint64_t begin = in_pages(offset);
  if (begin < size_) madvise(data_ + begin, size_ - begin, MADV_DONTNEED);
}

Budget::Lease Budget::take(uint64_t bytes, const char* what) {
  Lease lease;
  if (bytes == 0) return lease;
  const uint64_t cost = in_pages(bytes);
  {
    std::lock_guard lock(mutex_);
    if (cost > limit_ - std::min(used_, limit_)) {
      const uint64_t needed = cost > UINT64_MAX - used_ ? UINT64_MAX : used_ + cost;
      throw OverBudget(fmt::format("{} takes {} bytes, and {} of {} are free; a budget of {} would do", what, cost,
                                   limit_ - std::min(used_, limit_), limit_, needed),
                       needed);
    }
    used_ += cost;
    high_ = std::max(high_, used_);
  }
  lease.charge_ = counted(cost);
  void* data =
      bytes < kLeastMappedLease
          ? std::aligned_alloc(kLeaseAlignment, (bytes + kLeaseAlignment - 1) / kLeaseAlignment * kLeaseAlignment)
          : mmap(nullptr, cost, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == nullptr || data == MAP_FAILED)
    throw Error(Code::kBudget, fmt::format("the system has no {} bytes for {} (see ulimit -v and -d)", cost, what));
  lease.data_ = static_cast<std::byte*>(data);
  lease.size_ = bytes;
  return lease;
}

Budget::Charge Budget::try_charge(uint64_t bytes) {
  const uint64_t cost = in_pages(bytes);
  {
    std::lock_guard lock(mutex_);
    if (cost == 0 || cost > limit_ - std::min(used_, limit_)) return {};
    used_ += cost;
    high_ = std::max(high_, used_);
  }
  return counted(cost);
}

// What is counted here already is counted in the whole too.
Budget::Charge Budget::counted(uint64_t bytes) {
  if (whole_ != nullptr) whole_->count(bytes);
  Charge charge;
  charge.owner_ = this;
  charge.bytes_ = bytes;
  return charge;
}

uint64_t Budget::available() const {
  std::lock_guard lock(mutex_);
  return limit_ - std::min(used_, limit_);
}

uint64_t Budget::limit() const {
  std::lock_guard lock(mutex_);
  return limit_;
}

void Budget::set_limit(uint64_t limit) {
  std::lock_guard lock(mutex_);
  limit_ = limit;
}

uint64_t Budget::high_water() const {
  std::lock_guard lock(mutex_);
  return high_;
}

void Budget::count(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  used_ += bytes;
  high_ = std::max(high_, used_);
}

void Budget::give_back(uint64_t bytes) {
  {
    std::lock_guard lock(mutex_);
    used_ -= bytes;
  }
  if (whole_ != nullptr) whole_->give_back(bytes);
}

}  // namespace lowtide::stream
