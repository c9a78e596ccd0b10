// SPDX-License-Identifier: Apache-2.0
// A flatbuffer that is read in place from a Source: only the pages that are accessed are loaded.
//
// The traps: weights are between the tables, so a flatbuffer of a few thousand tables may be 2 GiB long and must not be
// loaded as a whole. Offsets are untrusted: each is checked when it is followed, against the end of the file and for
// its alignment, even if it was checked before, because the file may change. An object that many tables refer to is
// copied into memory each time, so the total is limited.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stream/file/budget.h"
#include "stream/file/file.h"

namespace lowtide::stream {

class TableView;

class FlatbufferView {
 public:
  // The largest size of a flatbuffer; the file may be larger.
  static constexpr uint64_t kMaxBytes = (uint64_t{1} << 31) - 2;
  // The limit of what is copied from one file into memory: names, shapes, scales, options.
  static constexpr uint64_t kMaxHeld = uint64_t{512} << 20;

  FlatbufferView(const Source& source, Budget& budget);
  FlatbufferView(const FlatbufferView&) = delete;
  FlatbufferView& operator=(const FlatbufferView&) = delete;

  TableView root();

  // Adds to the bytes that are copied into memory; throws Error(kMalformed) above kMaxHeld. Call it before storing
  // data.
  void hold(uint64_t bytes);
  [[noreturn]] void fail(uint64_t offset, std::string text) const;

  // An aligned number at `offset`.
  template <typename T>
  T number(uint64_t offset) {
    return flatbuffers::ReadScalar<T>(aligned(offset, sizeof(T)));
  }
  void read(uint64_t offset, void* out, uint64_t bytes);
  void check(uint64_t offset, uint64_t bytes) const;
  // The target of the offset stored at `at`.
  uint64_t follow(uint64_t at);

 private:
  static constexpr uint64_t kPage = 4096, kPages = 64;
  const std::byte* aligned(uint64_t offset, uint64_t bytes);
  const std::byte* in_page(uint64_t offset);

  const Source& source_;
  uint64_t size_, held_ = 0;
  Budget::Lease buffer_;
  std::array<uint64_t, kPages> pages_;  // number of the page in each place of the buffer
};

// A vector of `count` numbers at `offset`.
struct VectorPlace {
  uint64_t offset = 0;
  uint32_t count = 0;
};

class TablesView;

// One table. A slot is a generated constant such as tflite::Tensor::VT_SHAPE. An absent field reads as its default: 0
// unless one is given, no table, an empty string.
class TableView {
 public:
  using Slot = flatbuffers::voffset_t;

  TableView(FlatbufferView& view, uint64_t position);
  FlatbufferView& view() const { return *view_; }
  uint64_t position() const { return position_; }

  bool has(Slot slot) const { return field(slot) != 0; }
  template <typename T>
  T number(Slot slot, T otherwise = {}) const {
    const uint64_t at = field(slot);
    return at == 0 ? otherwise : view_->number<T>(at);
  }
  // The target of the offset in a field, of any type; nullopt: absent.
  std::optional<uint64_t> target(Slot slot) const;
  std::optional<TableView> table(Slot slot) const;
  TablesView tables(Slot slot) const;
  // Elements of `width` bytes each; nullopt: absent.
  std::optional<VectorPlace> vector(Slot slot, uint64_t width) const;
  template <typename T>
  std::vector<T> numbers(Slot slot) const {
    const VectorPlace place = vector(slot, sizeof(T)).value_or(VectorPlace());
    view_->hold(place.count * sizeof(T));
    std::vector<T> out(place.count);
    view_->read(place.offset, out.data(), place.count * sizeof(T));
    return out;
  }
  std::string text(Slot slot) const;
  // Throws when the string is not inside the file or does not end with a zero.
  void check_text(Slot slot) const { text_place(slot); }

 private:
  uint64_t field(Slot slot) const;  // 0: absent
  VectorPlace text_place(Slot slot) const;

  FlatbufferView* view_;
  uint64_t position_, vtable_;
  uint16_t vtable_bytes_;
};

// A vector of tables.
class TablesView {
 public:
  TablesView(FlatbufferView& view, VectorPlace place) : view_(&view), place_(place) {}
  uint32_t size() const { return place_.count; }
  // `index` is below size().
  TableView operator[](uint32_t index) const;

 private:
  FlatbufferView* view_;
  VectorPlace place_;
};

}  // namespace lowtide::stream
