// SPDX-License-Identifier: Apache-2.0
#include "emit/back_to_front.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <variant>

#include "stream/error.h"
#include "stream/file/workers.h"
#include "stream/progress.h"
#include "stream/recipe/blocks.h"
#include "stream/recipe/pour.h"

namespace lowtide::emit {
namespace {

using stream::Budget;

constexpr uint64_t kMaxStretch = uint64_t{2} << 20;  // larger descending writes are not faster
constexpr uint64_t kMinStretch = uint64_t{64} << 10;
constexpr uint64_t kCopyStretch = uint64_t{16} << 20;  // what one copy inside the kernel moves
constexpr uint64_t kMinCopy = uint64_t{256} << 10;     // below, gathering into one write is cheaper
// What a thread needs to work at speed: a stretch, and tiles of the same order for the recipe.
constexpr uint64_t kBytesPerThread = uint64_t{6} << 20;

// Whether its bytes are taken from a file as they are, holes left out.
bool is_copied(const Payload& payload) {
  return payload.bytes >= kMinCopy && stream::recipe::plain_extent(*payload.recipe);
}

// Elements [first, first + count) of a payload.
struct Piece {
  size_t payload;
  uint64_t first, count;
};
struct Stretch {
  std::vector<Piece> pieces;    // from the last to the first
  uint64_t begin = 0, end = 0;  // in the file, length words included
  bool copy = false;
};
// A box of a payload's elements, which is rows all over its place in the file.
struct Block {
  size_t payload;
  stream::RecipeRef recipe;
  stream::Box box;
};
using Cut = std::variant<Stretch, Block>;

// Deals out the file, from its end to its front.
class Cutter {
 public:
  Cutter(const Plan& plan, uint64_t stretch_bytes, Budget& budget)
      : plan_(plan), stretch_bytes_(stretch_bytes), budget_(budget), next_(plan.payloads.size()) {}

  std::optional<Cut> next() {
    std::lock_guard lock(mutex_);
    if (left_ == 0 && !open_next()) return std::nullopt;
    if (blocks_) return cut_block();
    return step_ ? cut_large() : gather_small();
  }

 private:
  const Payload& payload() const { return plan_.payloads[next_]; }
  bool large() const { return payload().bytes > stretch_bytes_ || copied(); }
  bool copied() const { return is_copied(payload()); }

  // Goes on to the payload in front of the last one; false at the front of the file.
  bool open_next() {
    if (next_ == 0) return false;
    --next_;
    left_ = payload().recipe->elements();
    step_ = 0;
    blocks_.reset();
    if (!large()) return true;
    const stream::Recipe& recipe = *payload().recipe;
    if (copied()) {
      step_ = elements_in(recipe, kCopyStretch);
    } else if ((blocks_ = stream::blocks_of(payload().recipe, stretch_bytes_))) {
      left_ = blocks_->count();
    } else {
      uint64_t good = stream::Pourer(payload().recipe, budget_).good_count(stretch_bytes_);
      step_ = std::clamp<uint64_t>(good / kGrain * kGrain, kGrain, elements_in(recipe, stretch_bytes_));
    }
    return true;
  }

  // Whole grains of elements, so that packed elements are cut between bytes.
  static constexpr uint64_t kGrain = 16;
  static uint64_t elements_in(const stream::Recipe& recipe, uint64_t bytes) {
    return bytes * 8 / static_cast<uint64_t>(stream::bits(recipe.dtype)) / kGrain * kGrain;
  }

  void add(Stretch& stretch, uint64_t first, uint64_t count) {
    const Payload& p = payload();
    uint64_t begin = p.position + stream::file_bytes(p.recipe->dtype, first);
    if (stretch.pieces.empty()) stretch.end = begin + stream::file_bytes(p.recipe->dtype, count);
    stretch.begin = first == 0 ? begin - plan_.prefix() : begin;
    stretch.pieces.push_back({next_, first, count});
    left_ = first;
  }

  Stretch cut_large() {
    Stretch stretch;
    stretch.copy = copied();
    uint64_t first = (left_ - 1) / step_ * step_;
    add(stretch, first, left_ - first);
    return stretch;
  }

  Block cut_block() { return {next_, blocks_->recipe, blocks_->at(--left_)}; }

  Stretch gather_small() {
    Stretch stretch;
    add(stretch, 0, left_);
    while (next_ > 0) {
      --next_;
      if (large() || stretch.end - payload().position + kPayloadAlignment > stretch_bytes_) {
        ++next_;
        break;
      }
      add(stretch, 0, payload().recipe->elements());
    }
    return stretch;
  }

  const Plan& plan_;
  uint64_t stretch_bytes_;
  Budget& budget_;
  size_t next_;        // the payload under the knife; those behind it are done
  uint64_t left_ = 0;  // its elements that are not dealt out yet, or its blocks
  uint64_t step_ = 0;  // elements of one cut; 0: it is small
  std::optional<stream::Blocks> blocks_;
  std::mutex mutex_;
};

// The pourer of the payload that was worked on last.
template <typename Pourer>
class Last {
 public:
  Pourer& of(size_t payload, const stream::RecipeRef& recipe, Budget& budget) {
    if (!pourer_ || payload != payload_) {
      pourer_.reset();  // gives its tiles back before the next one takes its own
      pourer_ = std::make_unique<Pourer>(recipe, budget);
      payload_ = payload;
    }
    return *pourer_;
  }
  void clear() { pourer_.reset(); }

 private:
  std::unique_ptr<Pourer> pourer_;
  size_t payload_ = 0;
};

// One thread's hands: a buffer and pourers of its own.
class Worker {
 public:
  Worker(const Plan& plan, stream::OutFile& out, Budget& budget, uint64_t stretch_bytes, Progress* progress)
      : plan_(plan),
        out_(out),
        budget_(budget),
        buffer_(budget.take(stretch_bytes + kPayloadAlignment, "writing")),
        progress_(progress) {}

  // Until all is written, or another thread has failed.
  void run(Cutter& cutter, const std::atomic<bool>& failed) {
    while (!failed) {
      std::optional<Cut> cut = cutter.next();
      if (!cut) return;
      const uint64_t bytes = std::visit([this](const auto& some) { return put(some); }, *cut);
      if (progress_) progress_->advance(bytes);
    }
  }

 private:
  uint64_t put(const Stretch& stretch) {
    stretch.copy ? copy(stretch) : write(stretch);
    return stretch.end - stretch.begin;
  }

  uint64_t put(const Block& block) {
    const Payload& payload = plan_.payloads[block.payload];
    const auto lane = static_cast<uint64_t>(stream::lane_bytes(payload.recipe->dtype));
    const std::byte* row = buffer_.data();
    named(payload, [&] {
      stretches_.clear();
      blocks_.of(block.payload, block.recipe, budget_).read(block.box, buffer_.data());
    });
    stream::for_each_run(block.box, block.recipe->dims, [&](uint64_t first, uint64_t count) {
      if (first == 0) write_prefix(payload);
      out_.write_at(payload.position + first * lane, {row, count * lane});
      row += count * lane;
    });
    return block.box.elements() * lane;
  }

  void write(const Stretch& stretch) {
    // Aligned in memory as in the file, so that elements lie at multiples of their size.
    std::byte* base = buffer_.data() + stretch.begin % kPayloadAlignment;
    uint64_t bytes = stretch.end - stretch.begin;
    if (stretch.pieces.size() > 1) std::memset(base, 0, bytes);  // the gaps
    for (const Piece& piece : stretch.pieces) {
      const Payload& payload = plan_.payloads[piece.payload];
      named(payload, [&] {
        uint64_t position = payload.position + stream::file_bytes(payload.recipe->dtype, piece.first);
        if (piece.first == 0) put_prefix(payload, base + (position - stretch.begin));
        if (piece.count > 0)
          pourer(piece.payload).read_file_bytes(piece.first, piece.count, base + (position - stretch.begin));
      });
    }
    out_.write_at(stretch.begin, {base, bytes});
  }

  void copy(const Stretch& stretch) {
    const Piece& piece = stretch.pieces[0];
    const Payload& payload = plan_.payloads[piece.payload];
    named(payload, [&] {
      const auto* extent = stream::recipe::plain_extent(*payload.recipe);
      uint64_t inside = stream::file_bytes(payload.recipe->dtype, piece.first);
      out_.copy_from(*extent->source, extent->stretches[0].offset + inside, payload.position + inside,
                     stream::file_bytes(payload.recipe->dtype, piece.count), buffer_.span());
    });
    if (piece.first == 0) write_prefix(payload);
  }

  void write_prefix(const Payload& payload) {
    if (plan_.external) return;
    std::byte length[4];
    put_prefix(payload, length + sizeof length);
    out_.write_at(payload.position - sizeof length, length);
  }

  // The length word of an inline payload, in front of `data`.
  void put_prefix(const Payload& payload, std::byte* data) {
    if (plan_.external) return;
    auto length = static_cast<uint32_t>(payload.bytes);
    std::memcpy(data - sizeof length, &length, sizeof length);
  }

  stream::Pourer& pourer(size_t payload) {
    blocks_.clear();
    return stretches_.of(payload, plan_.payloads[payload].recipe, budget_);
  }

  template <typename Work>
  void named(const Payload& payload, Work&& work) {
    try {
      work();
    } catch (stream::Error& error) {
      error.add_place({.slot = fmt::format("tensor '{}'", payload.tensor)});
      throw;
    }
  }

  const Plan& plan_;
  stream::OutFile& out_;
  Budget& budget_;
  Budget::Lease buffer_;
  Progress* progress_;
  Last<stream::Pourer> stretches_;
  Last<stream::BoxPourer> blocks_;  // only one of both holds tiles
};

uint64_t bytes_per_thread(const Plan& plan) { return std::max(kBytesPerThread, least_for_pouring(plan)); }

// A quarter at most, and what is left is for tiles.
uint64_t stretch_for(uint64_t share) { return std::clamp(share / 4 / 4096 * 4096, kMinStretch, kMaxStretch); }

}  // namespace

void for_each_data(const Plan& plan, const std::function<void(stream::Range)>& visit) {
  uint64_t begin = 0;  // of the data that go on up to the next hole
  for (const Payload& payload : plan.payloads) {
    if (!is_copied(payload)) continue;
    const auto* extent = stream::recipe::plain_extent(*payload.recipe);
    const uint64_t from = extent->stretches[0].offset, to = from + payload.bytes;
    for (uint64_t at = from; at < to;) {
      const stream::Range hole = extent->source->next_hole(at, to);
      at = hole.end;
      if (hole.bytes() == 0) continue;
      const uint64_t end = payload.position + (hole.begin - from);
      if (end > begin) visit({begin, end});
      begin = payload.position + (hole.end - from);
    }
  }
  if (plan.file_bytes > begin) visit({begin, plan.file_bytes});
}

uint64_t least_for_pouring(const Plan& plan) {
  constexpr uint64_t kPages = 4 * 4096;  // leases are whole pages
  const uint64_t tiles = least_scratch(plan) + kPages;
  return std::max(tiles / 3 * 4, tiles + kMinStretch) + kPages;
}

void pour_payloads(const Plan& plan, stream::OutFile& out, Budget& budget, const WriteOptions& options) {
  const uint64_t per_thread = bytes_per_thread(plan);
  const uint64_t share = stream::share_of(budget, per_thread, options.threads);
  const uint64_t stretch = stretch_for(share);
  Budget scout(share);
  Cutter cutter(plan, stretch, scout);
  std::atomic<bool> failed = false;
  stream::run_workers(budget, per_thread, options.threads, [&](Budget& own) {
    try {
      Worker(plan, out, own, stretch, options.progress).run(cutter, failed);
    } catch (...) {
      failed = true;
      throw;
    }
  });
}

}  // namespace lowtide::emit
