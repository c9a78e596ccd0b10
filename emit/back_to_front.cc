// SPDX-License-Identifier: Apache-2.0
#include "emit/back_to_front.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <variant>

#include "emit/two_passes.h"
#include "stream/error.h"
#include "stream/file/workers.h"
#include "stream/progress.h"
#include "stream/recipe/blocks.h"
#include "stream/recipe/recipe_reader.h"

namespace lowtide::emit {
namespace {

using stream::Budget;

constexpr uint64_t kMaxChunk = uint64_t{1} << 20;  // larger writes are not faster, and as much is mapped beside it
constexpr uint64_t kMaxBlock = uint64_t{3} << 20;  // nothing is mapped beside it, and larger ones have longer rows
constexpr uint64_t kMinChunk = uint64_t{64} << 10;
constexpr uint64_t kCopyChunk = uint64_t{16} << 20;  // copied by one thread, window by window
constexpr uint64_t kMinCopy = uint64_t{256} << 10;   // smaller payloads are gathered into one write, which is cheaper
// Of the panels of a transposed matrix: the parts of two passes keep all threads busy, and a cache of the processor
// holds it. Matrices with many rows have larger ones; those would go to the disk more than once.
constexpr uint64_t kPanelBytes = uint64_t{32} << 20;
constexpr uint64_t kMostOnDisk = uint64_t{128} << 20;
// The memory for a thread to work at full speed: a chunk, and tiles of about the same size for the recipe.
constexpr uint64_t kBytesPerThread = uint64_t{6} << 20;

// Whether its bytes are copied from a file unchanged, without holes.
bool is_copied(const Payload& payload) {
  return payload.bytes >= kMinCopy && stream::recipe::plain_stored(*payload.recipe);
}

// Elements [first, first + count) of a payload.
struct Piece {
  size_t payload;
  uint64_t first, count;
};
struct Chunk {
  std::vector<Piece> pieces;    // from the last to the first
  uint64_t begin = 0, end = 0;  // in the file, length words included
  bool copy = false;
};
// A box of a payload's elements, whose rows are at separate positions in the file.
struct Block {
  size_t payload;
  stream::RecipeRef recipe;
  stream::Box box;
};
// A band, or in the second pass a chunk, of a matrix that is transposed in two passes.
struct PassPart {
  size_t payload;
  TwoPasses passes;
  bool is_second;
  PanelPart part;
};
using Task = std::variant<Chunk, Block, PassPart>;

// The length word of an inline payload, in front of `data`.
void put_prefix(const Plan& plan, const Payload& payload, std::byte* data) {
  if (plan.external) return;
  auto length = static_cast<uint32_t>(payload.bytes);
  std::memcpy(data - sizeof length, &length, sizeof length);
}

void write_prefix(const Plan& plan, const Payload& payload, stream::OutFile& out) {
  if (plan.external) return;
  std::byte length[4];
  put_prefix(plan, payload, length + sizeof length);
  out.write_at(payload.position - sizeof length, length);
}

// Divides the file into tasks, from its end to its front.
class TaskQueue {
 public:
  TaskQueue(const Plan& plan, stream::OutFile& out, uint64_t chunk_bytes, uint64_t block_bytes, Budget& budget)
      : plan_(plan),
        out_(out),
        chunk_bytes_(chunk_bytes),
        block_bytes_(block_bytes),
        budget_(budget),
        used_(nothing_at(plan.payloads.empty() ? 0 : plan.payloads[0].position - plan.prefix())),
        next_(plan.payloads.size()) {}

  // Nothing when all tasks are given out, or one has failed. Waits at the end of a pass until its tasks are done.
  // Throws Error(kIo, kNoSpace).
  std::optional<Task> next() {
    std::unique_lock lock(mutex_);
    while (!is_failed_ && passes_ && left_ == 0) {
      running_ > 0 ? changed_.wait(lock) : next_pass();
    }
    if (is_failed_ || (left_ == 0 && !open_next())) return std::nullopt;
    ++running_;
    if (passes_) return PassPart{next_, *passes_, is_second_, {panel_, --left_}};
    if (blocks_) return next_block();
    return step_ ? next_part() : gather_small_payloads();
  }

  // To be called after each task.
  void done() {
    std::lock_guard lock(mutex_);
    --running_;
    changed_.notify_all();
  }
  // Lets all threads end.
  void fail() {
    std::lock_guard lock(mutex_);
    is_failed_ = true;
    changed_.notify_all();
  }

 private:
  static stream::Range nothing_at(uint64_t position) { return {position, position}; }

  const Payload& payload() const { return plan_.payloads[next_]; }
  bool large() const { return payload().bytes > chunk_bytes_ || copied(); }
  bool copied() const { return is_copied(payload()); }

  // Moves to the payload before the current one; false at the front of the file.
  bool open_next() {
    if (next_ == 0) return false;
    --next_;
    left_ = payload().recipe->elements();
    step_ = 0;
    blocks_.reset();
    if (!large()) {
      clear_gaps();
    } else if (copied()) {
      clear_gaps();
      step_ = elements_in(*payload().recipe, kCopyChunk);
    } else if ((passes_ = two_passes())) {
      used_.end = std::max(used_.end, passes_->space + passes_->space_bytes());
      open_panel(passes_->panels());
    } else {
      open_one_pass();
    }
    return true;
  }

  // To put elements [0, left_) of the payload together in blocks, or in chunks.
  void open_one_pass() {
    clear_gaps();
    const stream::Recipe& recipe = *payload().recipe;
    if ((blocks_ = stream::blocks_of(payload().recipe, block_bytes_, payload().position))) {
      blocks_->keep_first(left_);
      left_ = blocks_->count();
      return;
    }
    const uint64_t bytes = stream::is_scattered(payload().recipe, chunk_bytes_) ? block_bytes_ : chunk_bytes_;
    const uint64_t good = stream::RecipeReader(payload().recipe, budget_).good_count(bytes);
    step_ = std::clamp<uint64_t>(good / kGrain * kGrain, kGrain, elements_in(recipe, bytes));
  }

  std::optional<TwoPasses> two_passes() const {
    if (out_.has_holes()) return std::nullopt;
    // Panels read parts of pages, or of what a disk reads at once. Where they do not come from the page cache, or it
    // may lose them in between, the whole matrix is one panel, which is read in order.
    const bool in_panels = stream::recipe::is_cached(*payload().recipe) && payload().bytes <= out_.cache_bytes() / 4;
    const uint64_t panel_bytes = in_panels ? kPanelBytes : payload().bytes;
    auto passes = two_passes_of(payload().recipe, payload().position, used_.begin, panel_bytes, chunk_bytes_,
                                block_bytes_ / 3 * 2);
    if (!passes || (!in_panels && (passes->first_row > 0 || passes->panels() > 1))) return std::nullopt;
    if (!out_.stays_in_memory() && (!in_panels || passes->space_bytes() > kMostOnDisk)) return std::nullopt;
    return passes;
  }

  // The panel before `panel`.
  void open_panel(uint64_t panel) {
    panel_ = panel - 1;
    is_second_ = false;
    left_ = passes_->bands();
  }

  // When all parts of a pass are written.
  void next_pass() {
    if (!is_second_) {
      is_second_ = true;
      left_ = passes_->chunks(panel_);
    } else if (panel_ > 0) {
      open_panel(panel_);
    } else {
      left_ = passes_->first_element();
      passes_.reset();
      if (left_ > 0) return open_one_pass();
      write_prefix(plan_, payload(), out_);  // not before: bands may reach up to the first element
    }
  }

  // Before payloads are written where bands were: what is between them is zero again.
  void clear_gaps() {
    static constexpr std::array<std::byte, 2 * kPayloadAlignment> kZeros{};
    if (payload().position >= used_.end) return;
    for (size_t i = 1; i < plan_.payloads.size() && used_.begin < used_.end; ++i) {
      const Payload &before = plan_.payloads[i - 1], &behind = plan_.payloads[i];
      const uint64_t begin = before.position + before.bytes, end = behind.position - plan_.prefix();
      if (begin >= used_.end) break;
      for (uint64_t at = begin; at < end; at += kZeros.size())
        out_.write_at(at, std::span(kZeros).first(std::min<uint64_t>(kZeros.size(), end - at)));
    }
    used_.end = used_.begin;
  }

  // Elements are divided in multiples of this, so that packed elements are divided at byte boundaries.
  static constexpr uint64_t kGrain = 16;
  static uint64_t elements_in(const stream::Recipe& recipe, uint64_t bytes) {
    return bytes * 8 / static_cast<uint64_t>(stream::bits(recipe.dtype)) / kGrain * kGrain;
  }

  void add(Chunk& chunk, uint64_t first, uint64_t count) {
    const Payload& p = payload();
    uint64_t begin = p.position + stream::file_bytes(p.recipe->dtype, first);
    if (chunk.pieces.empty()) chunk.end = begin + stream::file_bytes(p.recipe->dtype, count);
    chunk.begin = first == 0 ? begin - plan_.prefix() : begin;
    chunk.pieces.push_back({next_, first, count});
    left_ = first;
  }

  Chunk next_part() {
    Chunk chunk;
    chunk.copy = copied();
    uint64_t first = (left_ - 1) / step_ * step_;
    add(chunk, first, left_ - first);
    return chunk;
  }

  Block next_block() { return {next_, blocks_->recipe, blocks_->at(--left_)}; }

  Chunk gather_small_payloads() {
    Chunk chunk;
    add(chunk, 0, left_);
    while (next_ > 0) {
      --next_;
      if (large() || chunk.end - payload().position + kPayloadAlignment > chunk_bytes_) {
        ++next_;
        break;
      }
      add(chunk, 0, payload().recipe->elements());
    }
    return chunk;
  }

  const Plan& plan_;
  stream::OutFile& out_;
  uint64_t chunk_bytes_, block_bytes_;
  Budget& budget_;
  std::mutex mutex_;    // guards the rest
  stream::Range used_;  // from the first payload on, by bands
  std::condition_variable changed_;
  size_t next_;        // the current payload; those after it are assigned
  uint64_t left_ = 0;  // its elements, blocks, or parts of a pass that are not assigned yet
  uint64_t step_ = 0;  // elements per chunk; 0: it is small
  std::optional<stream::Blocks> blocks_;
  std::optional<TwoPasses> passes_;
  uint64_t panel_ = 0;
  bool is_second_ = false, is_failed_ = false;
  uint64_t running_ = 0;  // tasks that are assigned and not done
};

// The RecipeReader of the last payload.
template <typename RecipeReader>
class Last {
 public:
  RecipeReader& of(size_t payload, const stream::RecipeRef& recipe, Budget& budget) {
    if (!reader_ || payload != payload_) {
      reader_.reset();  // frees its tiles before the next one takes its own
      reader_ = std::make_unique<RecipeReader>(recipe, budget);
      payload_ = payload;
    }
    return *reader_;
  }
  void clear() { reader_.reset(); }

 private:
  std::unique_ptr<RecipeReader> reader_;
  size_t payload_ = 0;
};

// The state of one thread: its buffer and readers.
class Worker {
 public:
  Worker(const Plan& plan, stream::OutFile& out, Budget& budget, uint64_t buffer_bytes, Progress* progress)
      : plan_(plan),
        out_(out),
        budget_(budget),
        buffer_(budget.take(buffer_bytes + kPayloadAlignment, "writing")),
        progress_(progress) {}

  // Returns when everything is written or another thread has failed.
  void run(TaskQueue& tasks) {
    while (std::optional<Task> task = tasks.next()) {
      const uint64_t bytes = std::visit([this](const auto& some) { return put(some); }, *task);
      tasks.done();
      if (progress_) progress_->advance(bytes);
    }
  }

 private:
  uint64_t put(const Chunk& chunk) {
    fill_up_to(chunk.copy ? 0 : chunk.end - chunk.begin);
    chunk.copy ? copy(chunk) : write(chunk);
    return chunk.end - chunk.begin;
  }

  uint64_t put(const Block& block) {
    const Payload& payload = plan_.payloads[block.payload];
    const auto lane = static_cast<uint64_t>(stream::lane_bytes(payload.recipe->dtype));
    const std::byte* row = buffer_.data();
    fill_up_to(buffer_.size());
    named(payload, [&] {
      chunks_.clear();
      blocks_.of(block.payload, block.recipe, budget_).read(block.box, buffer_.data());
    });
    const auto turn = out_.turn_to_write();  // the next block is read by another thread meanwhile
    stream::for_each_run(block.box, block.recipe->dims, [&](uint64_t first, uint64_t count) {
      if (first == 0) write_prefix(plan_, payload, out_);
      out_.write_at(payload.position + first * lane, {row, count * lane});
      row += count * lane;
    });
    return block.box.elements() * lane;
  }

  uint64_t put(const PassPart& part) {
    const Payload& payload = plan_.payloads[part.payload];
    fill_up_to(part.is_second ? part.passes.chunk_buffer_bytes() : part.passes.band_bytes());
    if (part.is_second) return write_chunk(part.passes, part.part, buffer_.span(), out_);
    named(payload, [&] {
      chunks_.clear();
      write_band(part.passes, part.part, blocks_.of(part.payload, part.passes.recipe, budget_), buffer_.span(), out_);
    });
    return 0;
  }

  // To be called before so many bytes of the buffer are used. Only large ones use all of it, and map nothing beside it.
  void fill_up_to(uint64_t bytes) {
    const bool is_large = bytes > kMaxChunk;
    if (was_large_ && !is_large) buffer_.discard(kMaxChunk + kPayloadAlignment);
    was_large_ = is_large;
  }

  void write(const Chunk& chunk) {
    // The elements of one payload are aligned in memory; those of several are where the file aligns them.
    const bool is_one = chunk.pieces.size() == 1;
    const uint64_t before = is_one && chunk.pieces[0].first == 0 ? plan_.prefix() : 0;
    std::byte* base = buffer_.data() + (is_one ? kPayloadAlignment - before : chunk.begin) % kPayloadAlignment;
    uint64_t bytes = chunk.end - chunk.begin;
    if (!is_one) std::memset(base, 0, bytes);  // the gaps
    for (const Piece& piece : chunk.pieces) {
      const Payload& payload = plan_.payloads[piece.payload];
      named(payload, [&] {
        uint64_t position = payload.position + stream::file_bytes(payload.recipe->dtype, piece.first);
        if (piece.first == 0) put_prefix(plan_, payload, base + (position - chunk.begin));
        if (piece.count > 0)
          reader(piece.payload).read_file_bytes(piece.first, piece.count, base + (position - chunk.begin));
      });
    }
    out_.write_at(chunk.begin, {base, bytes});
  }

  void copy(const Chunk& chunk) {
    const Piece& piece = chunk.pieces[0];
    const Payload& payload = plan_.payloads[piece.payload];
    named(payload, [&] {
      const auto* stored = stream::recipe::plain_stored(*payload.recipe);
      uint64_t inside = stream::file_bytes(payload.recipe->dtype, piece.first);
      out_.copy_from(*stored->source, stored->file_runs[0].offset + inside, payload.position + inside,
                     stream::file_bytes(payload.recipe->dtype, piece.count), buffer_.span());
    });
    if (piece.first == 0) write_prefix(plan_, payload, out_);
  }

  stream::RecipeReader& reader(size_t payload) {
    blocks_.clear();
    return chunks_.of(payload, plan_.payloads[payload].recipe, budget_);
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
  bool was_large_ = false;  // more of the buffer is resident than chunks need
  Progress* progress_;
  Last<stream::RecipeReader> chunks_;
  Last<stream::BoxReader> blocks_;  // only one of the two has tiles
};

uint64_t bytes_per_thread(const Plan& plan) { return std::max(kBytesPerThread, least_for_writing(plan)); }

// At most a quarter; the rest is for tiles and windows.
uint64_t part_of(uint64_t share, uint64_t most) { return std::clamp(share / 4 / 4096 * 4096, kMinChunk, most); }

}  // namespace

void for_each_data(const Plan& plan, const std::function<void(stream::Range)>& visit) {
  uint64_t begin = 0;  // of the data before the next hole
  for (const Payload& payload : plan.payloads) {
    if (!is_copied(payload)) continue;
    const auto* stored = stream::recipe::plain_stored(*payload.recipe);
    const uint64_t from = stored->file_runs[0].offset, to = from + payload.bytes;
    for (uint64_t at = from; at < to;) {
      const stream::Range hole = stored->source->next_hole(at, to);
      at = hole.end;
      if (hole.bytes() == 0) continue;
      const uint64_t end = payload.position + (hole.begin - from);
      if (end > begin) visit({begin, end});
      begin = payload.position + (hole.end - from);
    }
  }
  if (plan.file_bytes > begin) visit({begin, plan.file_bytes});
}

uint64_t least_for_writing(const Plan& plan) {
  constexpr uint64_t kPages = 4 * 4096;  // leases are rounded up to pages
  const uint64_t tiles = least_scratch(plan) + kPages;
  return std::max(tiles / 3 * 4, tiles + kMinChunk) + kPages;
}

void write_payloads(const Plan& plan, stream::OutFile& out, Budget& budget, const WriteOptions& options) {
  const uint64_t per_thread = bytes_per_thread(plan);
  const uint64_t share = stream::share_of(budget, per_thread, options.threads);
  const uint64_t chunk = part_of(share, kMaxChunk), block = part_of(share, kMaxBlock);
  Budget scout(share);
  TaskQueue tasks(plan, out, chunk, block, scout);
  stream::run_workers(budget, per_thread, options.threads, [&](Budget& own) {
    try {
      Worker(plan, out, own, block, options.progress).run(tasks);
    } catch (...) {
      tasks.fail();
      throw;
    }
  });
}

}  // namespace lowtide::emit
