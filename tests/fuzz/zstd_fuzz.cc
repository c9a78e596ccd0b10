// Compressed input, judged by zstd's decoder with all input and room for all output at once: what we take in pieces it
// takes whole, and the bytes are the same. (Its call for a whole buffer follows other rules: it lets blocks pass that
// are larger than their frame allows, and refuses some empty ones.)
#include <sys/resource.h>
#include <zstd.h>

#include <csignal>
#include <cstdlib>
#include <optional>

#include "stream/zstd_source.h"
#include "tests/fuzz/target.h"

namespace {

using namespace lowtide;

// What a few bytes may expand to; the spill file may not grow over it.
constexpr uint64_t kLargest = uint64_t{16} << 20;

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

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  limit_files();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::byte> ours;
  const bool done = fuzz::only_errors([&] {
    stream::Budget budget(fuzz::kBudget);
    stream::Spill spill(fuzz::scratch_folder());
    auto source = stream::memory_source(fuzz::bytes_of(data, size), "fuzz.zst");
    auto plain = stream::decompress(*source, spill, budget);
    ours.resize(plain->size());
    plain->read_at(0, ours);
  });
  if (!done) return 0;
  const auto expected = judge(data, size);
  if (!expected) fuzz::finding("zstd refuses what we took");
  if (ours != *expected) fuzz::finding("other bytes than zstd's");
  return 0;
}
