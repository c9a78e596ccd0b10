// SPDX-License-Identifier: Apache-2.0
#include "stream/tflite/options.h"

#include <flatbuffers/minireflect.h>

#include <string_view>
#include <type_traits>

#include "schemas/tflite_generated.h"

namespace lowtide::stream {
namespace {

using flatbuffers::ElementaryType;
using flatbuffers::TypeTable;
using Slot = TableView::Slot;

// The trap: a field with its default value is not in the file, and the reflection tables have no defaults. All are zero
// except these.
struct Default {
  std::string_view table, field;
  int64_t value;
};
constexpr Default kDefaults[] = {
    {"Conv2DOptions", "dilation_w_factor", 1},
    {"Conv2DOptions", "dilation_h_factor", 1},
    {"Conv3DOptions", "dilation_d_factor", 1},
    {"Conv3DOptions", "dilation_w_factor", 1},
    {"Conv3DOptions", "dilation_h_factor", 1},
    {"DepthwiseConv2DOptions", "dilation_w_factor", 1},
    {"DepthwiseConv2DOptions", "dilation_h_factor", 1},
    {"AddOptions", "pot_scale_int16", 1},
    {"SubOptions", "pot_scale_int16", 1},
    {"UniqueOptions", "idx_out_type", 2},
    {"BidirectionalSequenceLSTMOptions", "time_major", 1},
};
int64_t default_of(std::string_view table, std::string_view field) {
  for (const Default& row : kDefaults)
    if (row.table == table && row.field == field) return row.value;
  return 0;
}

// Deprecated fields of the schema are skipped.
bool deprecated(std::string_view table, std::string_view field) {
  return table == "ResizeBilinearOptions" && (field == "new_height" || field == "new_width");
}

// Calls `use` with a zero of the C++ type in which `type` is stored.
template <typename Use>
void stored_as(ElementaryType type, Use&& use) {
  switch (type) {
    case flatbuffers::ET_BOOL:
    case flatbuffers::ET_UTYPE:
    case flatbuffers::ET_UCHAR:
      return use(uint8_t{});
    case flatbuffers::ET_CHAR:
      return use(int8_t{});
    case flatbuffers::ET_SHORT:
      return use(int16_t{});
    case flatbuffers::ET_USHORT:
      return use(uint16_t{});
    case flatbuffers::ET_INT:
      return use(int32_t{});
    case flatbuffers::ET_UINT:
      return use(uint32_t{});
    case flatbuffers::ET_LONG:
      return use(int64_t{});
    case flatbuffers::ET_ULONG:
      return use(uint64_t{});
    case flatbuffers::ET_FLOAT:
      return use(float{});
    case flatbuffers::ET_DOUBLE:
      return use(double{});
    default:  // strings and tables
      return;
  }
}

template <typename T>
using Shown = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;

void read_vector(ElementaryType type, const TableView& table, Slot slot, tfl::Option& option) {
  stored_as(type, [&]<typename T>(T) {
    const std::vector<T> numbers = table.numbers<T>(slot);
    table.view().hold(numbers.size() * sizeof(Shown<T>));
    option.value = std::vector<Shown<T>>(numbers.begin(), numbers.end());
  });
}

void read_scalar(ElementaryType type, const TableView& table, Slot slot, const TypeTable* names, int64_t otherwise,
                 tfl::Option& option) {
  stored_as(type, [&]<typename T>(T) {
    option.value = static_cast<Shown<T>>(table.number<T>(slot, static_cast<T>(otherwise)));
  });
  const auto* value = std::get_if<int64_t>(&option.value);
  if (type == flatbuffers::ET_BOOL) {
    option.value = *value != 0;
  } else if (names != nullptr && value != nullptr) {
    const char* name = flatbuffers::EnumName(*value, names);
    if (name != nullptr) option.enumerator = name;
  }
}

std::vector<tfl::Option> read_table(const TableView& table, const TypeTable& fields, std::string_view name) {
  std::vector<tfl::Option> out;
  table.view().hold(fields.num_elems * sizeof(tfl::Option));
  out.reserve(fields.num_elems);
  for (size_t i = 0; i < fields.num_elems; ++i) {
    auto code = fields.type_codes[i];
    auto type = static_cast<ElementaryType>(code.base_type);
    if (type == flatbuffers::ET_SEQUENCE || deprecated(name, fields.names[i])) continue;
    const Slot slot = flatbuffers::FieldIndexToOffset(static_cast<Slot>(i));
    tfl::Option option;
    option.name = fields.names[i];
    if (code.is_repeating) {
      if (type == flatbuffers::ET_STRING) continue;
      read_vector(type, table, slot, option);
    } else if (type == flatbuffers::ET_STRING) {
      option.value = table.text(slot);
    } else {
      const TypeTable* names = code.sequence_ref >= 0 ? fields.type_refs[code.sequence_ref]() : nullptr;
      read_scalar(type, table, slot, names, default_of(name, fields.names[i]), option);
    }
    out.push_back(std::move(option));
  }
  return out;
}

void read_union(const TableView& from, Slot type_slot, Slot slot, const TypeTable& tables, LastOptions& last,
                tfl::Operator& op) {
  const auto type = from.number<uint8_t>(type_slot);
  if (type == 0 || type >= tables.num_elems) return;  // none, or newer than our schema
  const std::optional<TableView> table = from.table(slot);
  if (!table) return;
  op.options_table = tables.names[type];
  const TypeTable* fields = tables.type_refs[tables.type_codes[type].sequence_ref]();
  std::vector<tfl::Option> options = read_table(*table, *fields, op.options_table);
  auto& same = last[op.options_table];
  if (!same || *same != options) same = std::make_shared<const std::vector<tfl::Option>>(std::move(options));
  op.options = tfl::OptionList(same);
}

}  // namespace

void read_options(const TableView& from, LastOptions& last, tfl::Operator& op) {
  using tflite::Operator;
  read_union(from, Operator::VT_BUILTIN_OPTIONS_TYPE, Operator::VT_BUILTIN_OPTIONS, *tflite::BuiltinOptionsTypeTable(),
             last, op);
  if (op.options_table.empty())
    read_union(from, Operator::VT_BUILTIN_OPTIONS_2_TYPE, Operator::VT_BUILTIN_OPTIONS_2,
               *tflite::BuiltinOptions2TypeTable(), last, op);
}

}  // namespace lowtide::stream
