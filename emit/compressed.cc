// SPDX-License-Identifier: Apache-2.0
#define ZSTD_STATIC_LINKING_ONLY  // for ZSTD_initStaticCCtx: the encoder's memory comes out of the budget
#include "emit/compressed.h"

#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

#include "emit/planned_file.h"
#include "stream/error.h"
#include "stream/file/seekable.h"
#include "stream/file/workers.h"
#include "stream/progress.h"

namespace lowtide::emit {
namespace {

using stream::Budget;
using stream::Code;
using stream::Error;
namespace seekable = stream::seekable;

// For the tiles of the recipe that is being compressed.
constexpr uint64_t kTilesBytes = uint64_t{3} << 19;

uint64_t frames_of(const Plan& plan) { return (plan.file_bytes + kFrameBytes - 1) / kFrameBytes; }
uint64_t table_bytes(uint64_t frames) {
  return seekable::kSkippableHeaderBytes + frames * seekable::kEntryBytes + seekable::kFooterBytes;
}
uint64_t frame_bound() { return ZSTD_compressBound(kFrameBytes); }

ZSTD_compressionParameters parameters(int level) { return ZSTD_getCParams(level, kFrameBytes, 0); }
uint64_t encoder_bytes(int level) { return ZSTD_estimateCCtxSize_usingCParams(parameters(level)); }

// Assigns frames to threads, and writes them in order.
class Frames {
 public:
  Frames(const Plan& plan, stream::OutFile& out, Progress* progress)
      : plan_(plan), out_(out), progress_(progress), count_(frames_of(plan)) {
    if (count_ > seekable::kMaxFrames)
      throw Error(Code::kUnsupported,
                  fmt::format("a file of {} bytes is too large for the seekable zstd format", plan.file_bytes));
  }

  std::optional<uint64_t> next() {
    std::lock_guard lock(mutex_);
    if (failed_ || assigned_ == count_) return std::nullopt;
    return assigned_++;
  }
  uint64_t bytes_of(uint64_t frame) const { return std::min(kFrameBytes, plan_.file_bytes - frame * kFrameBytes); }

  // Waits until all earlier frames are written. If another thread fails, it returns without writing.
  void store(uint64_t frame, std::span<const std::byte> bytes) {
    std::unique_lock lock(mutex_);
    turn_.wait(lock, [&] { return failed_ || sizes_.size() == frame; });
    if (failed_) return;
    out_.write_at(end_, bytes);
    end_ += bytes.size();
    sizes_.push_back(static_cast<uint32_t>(bytes.size()));
    turn_.notify_all();
    if (progress_) progress_->advance(bytes_of(frame));
  }
  void fail() {
    std::lock_guard lock(mutex_);
    failed_ = true;
    turn_.notify_all();
  }

  // Writes the table after the frames; returns the size of the file.
  uint64_t finish() {
    std::vector<std::byte> window;
    auto put = [&](auto number) {
      const auto* bytes = reinterpret_cast<const std::byte*>(&number);
      window.insert(window.end(), bytes, bytes + sizeof number);
    };
    auto flush = [&](size_t least) {
      if (window.size() < least) return;
      out_.write_at(end_, window);
      end_ += window.size();
      window.clear();
    };
    put(seekable::kSkippableMagic);
    put(static_cast<uint32_t>(table_bytes(count_) - seekable::kSkippableHeaderBytes));
    for (uint64_t frame = 0; frame < count_; ++frame) {
      put(sizes_[frame]);
      put(static_cast<uint32_t>(bytes_of(frame)));
      flush(64 * 1024);
    }
    put(static_cast<uint32_t>(count_));
    put(uint8_t{0});  // no checksums in the table: the frames have them
    put(seekable::kMagic);
    flush(1);
    return end_;
  }

 private:
  const Plan& plan_;
  stream::OutFile& out_;
  Progress* progress_;
  const uint64_t count_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable turn_;
  uint64_t assigned_ = 0, end_ = 0;
  std::vector<uint32_t> sizes_;  // of the written frames
  bool failed_ = false;
};

class Compressor {
 public:
  Compressor(const Plan& plan, int level, Budget& budget)
      : file_(plan, budget, "the model"),
        frame_(budget.take(kFrameBytes, "compressing")),
        packed_(budget.take(frame_bound(), "compressing")),
        workspace_(budget.take(encoder_bytes(level), "compressing")),
        context_(ZSTD_initStaticCCtx(workspace_.data(), workspace_.size())) {
    if (context_ == nullptr) throw Error(Code::kInternal, "zstd underestimated the memory it needs");
    check(ZSTD_CCtx_setParameter(context_, ZSTD_c_compressionLevel, level));
    check(ZSTD_CCtx_setParameter(context_, ZSTD_c_checksumFlag, 1));
  }
  std::span<const std::byte> compress(uint64_t offset, uint64_t bytes) {
    file_.read_at(offset, frame_.span().first(bytes));
    return packed_.span().first(check(ZSTD_compress2(context_, packed_.data(), packed_.size(), frame_.data(), bytes)));
  }

 private:
  static size_t check(size_t result) {
    if (ZSTD_isError(result)) throw Error(Code::kInternal, fmt::format("zstd: {}", ZSTD_getErrorName(result)));
    return result;
  }

  PlannedFile file_;
  Budget::Lease frame_, packed_, workspace_;
  ZSTD_CCtx* context_;  // in workspace_
};

}  // namespace

uint64_t compressed_bound(const Plan& plan) {
  const uint64_t frames = frames_of(plan);
  return stream::checked_add(stream::checked_mul(frames, frame_bound()), table_bytes(frames));
}

uint64_t least_for_compressing(const Plan& plan, int level) {
  constexpr uint64_t kPages = 4 * 4096;  // leases are rounded up to pages
  return encoder_bytes(level) + kFrameBytes + frame_bound() + std::max(kTilesBytes, least_scratch(plan)) + kPages;
}

uint64_t write_compressed(const Plan& plan, int level, stream::OutFile& out, Budget& budget,
                          const WriteOptions& options) {
  if (options.progress) options.progress->begin("compressing", plan.file_bytes);
  Frames frames(plan, out, options.progress);
  stream::run_workers(budget, least_for_compressing(plan, level), options.threads, [&](Budget& own) {
    try {
      Compressor compressor(plan, level, own);
      while (std::optional<uint64_t> frame = frames.next())
        frames.store(*frame, compressor.compress(*frame * kFrameBytes, frames.bytes_of(*frame)));
    } catch (...) {
      frames.fail();
      throw;
    }
  });
  return frames.finish();
}

}  // namespace lowtide::emit
