// SPDX-License-Identifier: Apache-2.0
#include "stream/tflite/flatbuffer_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "stream/counted.h"
#include "stream/error.h"

namespace lowtide::stream {
namespace {

using Offset = flatbuffers::uoffset_t;

constexpr uint64_t kNoPage = UINT64_MAX;

}  // namespace

FlatbufferView::FlatbufferView(const Source& source, Budget& budget)
    : source_(source),
      size_(std::min(source.size(), kMaxBytes)),
      buffer_(budget.take(kPage * kPages, "reading a flatbuffer")) {
  pages_.fill(kNoPage);
}

TableView FlatbufferView::root() { return {*this, follow(0)}; }

void FlatbufferView::hold(uint64_t bytes) {
  held_ += std::min(bytes, kMaxHeld + 1);
  if (held_ > kMaxHeld)
    fail(0, fmt::format("names, shapes and options take more than {} MiB in memory, the limit", kMaxHeld >> 20));
}

void FlatbufferView::fail(uint64_t offset, std::string text) const {
  throw Error(Code::kMalformed, std::move(text), {.file = source_.name(), .offset = offset});
}

void FlatbufferView::check(uint64_t offset, uint64_t bytes) const {
  if (offset > size_ || bytes > size_ - offset)
    fail(offset, fmt::format("{} needed, but the flatbuffer ends at byte {} (is the file truncated?)",
                             counted_are(bytes, "byte"), size_));
}

uint64_t FlatbufferView::follow(uint64_t at) {
  const auto distance = number<Offset>(at);
  // Offsets point forward, so nothing can contain itself. The sign bit must be clear: runtimes use 31 bits.
  if (distance == 0 || distance > INT32_MAX) fail(at, fmt::format("the offset {} is invalid", distance));
  check(at + distance, 1);
  return at + distance;
}

void FlatbufferView::read(uint64_t offset, void* out, uint64_t bytes) {
  check(offset, bytes);
  auto* to = static_cast<std::byte*>(out);
  while (bytes > 0) {
    const uint64_t piece = std::min(bytes, kPage - offset % kPage);
    std::memcpy(to, in_page(offset), piece);
    to += piece;
    offset += piece;
    bytes -= piece;
  }
}

// Aligned numbers do not cross pages.
const std::byte* FlatbufferView::aligned(uint64_t offset, uint64_t bytes) {
  check(offset, bytes);
  if (offset % bytes != 0) fail(offset, fmt::format("a number of {} bytes is not aligned", bytes));
  return in_page(offset);
}

const std::byte* FlatbufferView::in_page(uint64_t offset) {
  const uint64_t page = offset / kPage, place = page % kPages;
  if (pages_[place] != page) {
    pages_[place] = kNoPage;  // in case the read throws
    const uint64_t begin = page * kPage;
    source_.read_at(begin, buffer_.span().subspan(place * kPage, std::min(kPage, size_ - begin)));
    pages_[place] = page;
  }
  return buffer_.data() + place * kPage + offset % kPage;
}

TableView::TableView(FlatbufferView& view, uint64_t position) : view_(&view), position_(position) {
  const int64_t back = view.number<flatbuffers::soffset_t>(position);
  const int64_t vtable = static_cast<int64_t>(position) - back;
  if (vtable < 0)
    view.fail(position, fmt::format("the table's vtable would be {} bytes before it, outside the file", back));
  vtable_ = static_cast<uint64_t>(vtable);
  vtable_bytes_ = view.number<Slot>(vtable_);
  if (vtable_bytes_ % sizeof(Slot) != 0)
    view.fail(vtable_, fmt::format("the vtable has {} bytes, an odd number", vtable_bytes_));
  view.check(vtable_, vtable_bytes_);
}

uint64_t TableView::field(Slot slot) const {
  if (slot >= vtable_bytes_) return 0;
  const auto inside = view_->number<Slot>(vtable_ + slot);
  return inside == 0 ? 0 : position_ + inside;
}

std::optional<uint64_t> TableView::target(Slot slot) const {
  const uint64_t at = field(slot);
  if (at == 0) return std::nullopt;
  return view_->follow(at);
}

std::optional<TableView> TableView::table(Slot slot) const {
  const std::optional<uint64_t> at = target(slot);
  if (!at) return std::nullopt;
  return TableView(*view_, *at);
}

TablesView TableView::tables(Slot slot) const { return {*view_, vector(slot, sizeof(Offset)).value_or(VectorPlace())}; }

std::optional<VectorPlace> TableView::vector(Slot slot, uint64_t width) const {
  const std::optional<uint64_t> begin = target(slot);
  if (!begin) return std::nullopt;
  const VectorPlace place = {.offset = *begin + sizeof(Offset), .count = view_->number<Offset>(*begin)};
  view_->check(place.offset, place.count * width);
  return place;
}

VectorPlace TableView::text_place(Slot slot) const {
  const std::optional<VectorPlace> place = vector(slot, 1);
  if (!place) return {};
  const uint64_t end = place->offset + place->count;
  if (view_->number<uint8_t>(end) != 0) view_->fail(end, "the string does not end with a zero");
  return *place;
}

std::string TableView::text(Slot slot) const {
  const VectorPlace place = text_place(slot);
  view_->hold(place.count);
  std::string out(place.count, '\0');
  view_->read(place.offset, out.data(), place.count);
  return out;
}

TableView TablesView::operator[](uint32_t index) const {
  return {*view_, view_->follow(place_.offset + index * sizeof(Offset))};
}

}  // namespace lowtide::stream
