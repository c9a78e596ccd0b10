// SPDX-License-Identifier: Apache-2.0
#include "emit/packed_text.h"

#include <fmt/format.h>
#include <zstd.h>

#include "stream/error.h"

namespace lowtide::emit {
namespace {

constexpr size_t kBlockBytes = 128 * 1024;
constexpr int kBlockLevel = 1;

size_t checked(size_t result) {
  if (ZSTD_isError(result))
    throw stream::Error(stream::Code::kInternal, fmt::format("zstd: {}", ZSTD_getErrorName(result)));
  return result;
}

}  // namespace

void PackedText::add(std::string_view text) {
  size_ += text.size();
  while (!text.empty()) {
    if (open_.capacity() < kBlockBytes) open_.reserve(kBlockBytes);
    const std::string_view part = text.substr(0, kBlockBytes - open_.size());
    open_ += part;
    text.remove_prefix(part.size());
    if (open_.size() == kBlockBytes) pack();
  }
}

void PackedText::pack() {
  std::string packed(ZSTD_compressBound(open_.size()), '\0');
  packed.resize(checked(ZSTD_compress(packed.data(), packed.size(), open_.data(), open_.size(), kBlockLevel)));
  packed.shrink_to_fit();
  blocks_.push_back({std::move(packed), open_.size()});
  open_.clear();
}

void PackedText::read(const std::function<void(std::string_view)>& on_piece) const {
  std::string text;
  for (const Block& block : blocks_) {
    text.resize(block.bytes);
    checked(ZSTD_decompress(text.data(), text.size(), block.packed.data(), block.packed.size()));
    on_piece(text);
  }
  if (!open_.empty()) on_piece(open_);
}

}  // namespace lowtide::emit
