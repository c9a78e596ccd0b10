// SPDX-License-Identifier: Apache-2.0
// Compressed input, judged by zstd's decoder with all input and room for all output at once: what we accept in pieces
// it accepts as a whole, and the bytes are the same. (Its call for a whole buffer follows other rules: it lets blocks
// pass that are larger than their frame allows, and refuses some empty ones.) The same for what is read through a table
// of frames.
#include <sys/resource.h>
#include <zstd.h>

#include <csignal>
#include <cstdlib>
#include <optional>

#include "stream/file/seekable_source.h"
#include "stream/file/zstd_source.h"
#include "tests/fuzz/target.h"

namespace {

using namespace lowtide;

// What a few bytes may expand to; the spill file may not grow over it.
constexpr uint64_t kLargest = uint64_t{16} << 20;
constexpr size_t kPiece = 4000;

void limit_files() {
  std::signal(SIGXFSZ, SIG_IGN);  // so that writing on fails with EFBIG, which is "no space"
  rlimit limit = {};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0) std::abort();
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, kLargest);
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) std::abort();
  setenv("TMPDIR", fuzz::scratch_folder().c_str(), 1);
}

// All frames; nullopt when zstd refuses them or they are cut.
std::optional<std::vector<std::byte>> judge(const uint8_t* data, size_t size) {
  static ZSTD_DCtx* const context = ZSTD_createDCtx();
  ZSTD_DCtx_reset(context, ZSTD_reset_session_only);
  std::vector<std::byte> bytes(kLargest);
  ZSTD_inBuffer in = {data, size, 0};
  ZSTD_outBuffer out = {bytes.data(), bytes.size(), 0};
  size_t left = 1;
  while (in.pos < in.size) {
    left = ZSTD_decompressStream(context, &out, &in);
    if (ZSTD_isError(left) != 0 || (left != 0 && out.pos == out.size)) return std::nullopt;
  }
  if (left != 0) return std::nullopt;
  bytes.resize(out.pos);
  return bytes;
}

// Nothing when there is an error.
template <typename Open>
void check(const uint8_t* data, size_t size, Open&& open) {
  std::optional<std::vector<std::byte>> ours;
  fuzz::only_errors([&] {
    stream::Budget budget(fuzz::kBudget);
    auto plain = open(stream::memory_source(fuzz::bytes_of(data, size), "fuzz.zst"), budget);
    if (!plain || plain->size() > kLargest) return;
    std::vector<std::byte> bytes(plain->size());
    // From both ends, so that what is read at random is asked for out of order.
    for (size_t begin = 0, end = bytes.size(); begin < end;) {
      const size_t piece = std::min(kPiece, end - begin);
      plain->read_at(end - piece, std::span(bytes).subspan(end - piece, piece));
      end -= piece;
      const size_t other = std::min(kPiece, end - begin);
      plain->read_at(begin, std::span(bytes).subspan(begin, other));
      begin += other;
    }
    ours = std::move(bytes);
  });
  if (!ours) return;
  const auto expected = judge(data, size);
  if (!expected) fuzz::finding("zstd refuses what we took");
  if (*ours != *expected) fuzz::finding("other bytes than zstd's");
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  limit_files();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stream::Spill spill({.folder = fuzz::scratch_folder()});
  check(data, size, [&](auto source, stream::Budget& budget) { return stream::decompress(*source, spill, budget); });
  check(data, size, [](auto source, stream::Budget& budget) { return stream::open_seekable(source, budget); });
  return 0;
}
