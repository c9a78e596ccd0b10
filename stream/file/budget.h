// SPDX-License-Identifier: Apache-2.0
// The memory budget: every tile and window is taken from it, so that the peak is known beforehand.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>

#include "stream/error.h"

namespace lowtide::stream {

// The budget is too small for what was asked; a limit of `needed` bytes would have been enough.
class OverBudget : public Error {
 public:
  OverBudget(const std::string& text, uint64_t needed) : Error(Code::kBudget, text), needed_(needed) {}
  uint64_t needed() const { return needed_; }

 private:
  uint64_t needed_;
};

class Budget {
 public:
  // `limit` bytes for tiles and windows together (the process itself comes on top: tools subtract it from --max-rss).
  explicit Budget(uint64_t limit) : limit_(limit) {}
  // A share of another budget that outlives it: what is taken here counts there too, where `limit` bytes must be free.
  Budget(uint64_t limit, Budget& whole) : whole_(&whole), limit_(limit) {}
  // Whatever was taken from it is given back before: leases and charges refer to it.
  ~Budget() { assert(used_ == 0); }
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  // Bytes that are counted, and given back at the end: for memory that is not taken here, such as a mapped window.
  class Charge {
   public:
    Charge() = default;
    Charge(Charge&& other) noexcept;
    Charge& operator=(Charge&& other) noexcept;
    ~Charge();
    explicit operator bool() const { return owner_ != nullptr; }

   private:
    friend class Budget;
    Budget* owner_ = nullptr;
    uint64_t bytes_ = 0;
  };

  // A buffer that gives itself back, aligned to 64 bytes. A large one is mapped, so that freeing it returns it to the
  // system. What is in it at first is not defined.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept;
    Lease& operator=(Lease&& other) noexcept;
    ~Lease();
    std::byte* data() const { return data_; }
    uint64_t size() const { return size_; }
    std::span<std::byte> span() const { return {data_, size_}; }
    // Gives the memory of whole pages from `offset` on back to the system, but for a small lease. They stay charged,
    // and what they hold is not defined.
    void discard(uint64_t offset);

   private:
    friend class Budget;
    Charge charge_;
    std::byte* data_ = nullptr;
    uint64_t size_ = 0;
  };

  // Throws OverBudget, which names `what`, when the bytes are beyond the limit, Error(kBudget) when the system has
  // none.
  Lease take(uint64_t bytes, const char* what);
  // Nothing when that many bytes are not free. Whole pages are counted.
  Charge try_charge(uint64_t bytes);
  // Bytes still free, for callers that choose their tile by what there is.
  uint64_t available() const;
  uint64_t limit() const;
  // What is taken stays taken, even when it is more.
  void set_limit(uint64_t limit);
  uint64_t high_water() const;

 private:
  void count(uint64_t bytes);
  Charge counted(uint64_t bytes);
  void give_back(uint64_t bytes);

  Budget* whole_ = nullptr;
  mutable std::mutex mutex_;  // guards the rest
  uint64_t limit_;
  uint64_t used_ = 0;
  uint64_t high_ = 0;
};

}  // namespace lowtide::stream
