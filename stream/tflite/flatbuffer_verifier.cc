// SPDX-License-Identifier: Apache-2.0
#include "stream/tflite/flatbuffer_verifier.h"

#include <fmt/format.h>

#include <vector>

#include "stream/error.h"

namespace lowtide::stream {
namespace {

using flatbuffers::ElementaryType;
using flatbuffers::TypeTable;
using Slot = TableView::Slot;

class Verifier {
 public:
  void table(const TableView& table, const TypeTable& type);
  std::string path() const;

 private:
  struct PathPart {
    const char* field;
    int64_t index;  // -1: not an element of a vector
  };
  void field(const TableView& table, const TypeTable& type, size_t number);
  void vector(const TableView& table, Slot slot, ElementaryType element, const TypeTable* type);
  void one(const TableView& table, Slot slot, const TypeTable& type);

  uint64_t tables_ = 0;
  std::vector<PathPart> path_;  // not unwound when an error is thrown: it is reported
};

std::string Verifier::path() const {
  std::string out;
  for (const PathPart& part : path_) {
    if (!out.empty()) out += '.';
    out += part.field;
    if (part.index >= 0) out += fmt::format("[{}]", part.index);
  }
  return out;
}

void Verifier::table(const TableView& table, const TypeTable& type) {
  // Shared tables are counted each time they are reached: a small file could have very many references to one.
  if (++tables_ > kMaxTables)
    table.view().fail(table.position(),
                      fmt::format("the flatbuffer has more than {} tables, the limit of the runtimes", kMaxTables));
  for (size_t i = 0; i < type.num_elems; ++i) {
    path_.push_back({type.names[i], -1});
    field(table, type, i);
    path_.pop_back();
  }
}

void Verifier::field(const TableView& table, const TypeTable& type, size_t number) {
  const flatbuffers::TypeCode code = type.type_codes[number];
  const auto element = static_cast<ElementaryType>(code.base_type);
  const Slot slot = flatbuffers::FieldIndexToOffset(static_cast<Slot>(number));
  if (!table.has(slot)) return;
  const TypeTable* referred = code.sequence_ref >= 0 ? type.type_refs[code.sequence_ref]() : nullptr;
  if (code.is_repeating) return vector(table, slot, element, referred);
  switch (element) {
    case flatbuffers::ET_STRING:
      return table.check_text(slot);
    case flatbuffers::ET_SEQUENCE:
      return one(table, slot, *referred);
    default:
      break;
  }
  switch (flatbuffers::InlineSize(element, nullptr)) {
    case 1:
      table.number<uint8_t>(slot);
      break;
    case 2:
      table.number<uint16_t>(slot);
      break;
    case 4:
      table.number<uint32_t>(slot);
      break;
    default:
      table.number<uint64_t>(slot);
  }
}

// A table, or the member of a union, whose type is in the slot before it.
void Verifier::one(const TableView& table, Slot slot, const TypeTable& type) {
  if (type.st != flatbuffers::ST_UNION) return this->table(*table.table(slot), type);
  const auto member = table.number<uint8_t>(static_cast<Slot>(slot - sizeof(Slot)));
  if (member == 0 || member >= type.num_elems) {
    table.target(slot);  // its type is unknown, but its offset must be valid
    return;
  }
  this->table(*table.table(slot), *type.type_refs[type.type_codes[member].sequence_ref]());
}

void Verifier::vector(const TableView& table, Slot slot, ElementaryType element, const TypeTable* type) {
  if (element != flatbuffers::ET_SEQUENCE) {
    table.vector(slot, flatbuffers::InlineSize(element, nullptr));
    return;
  }
  const TablesView tables = table.tables(slot);
  for (uint32_t i = 0; i < tables.size(); ++i) {
    path_.back().index = i;
    this->table(tables[i], *type);
  }
}

}  // namespace

void verify_flatbuffer(const TableView& root, const TypeTable& type) {
  Verifier verifier;
  try {
    verifier.table(root, type);
  } catch (Error& error) {
    error.add_place({.slot = verifier.path()});
    throw;
  }
}

}  // namespace lowtide::stream
