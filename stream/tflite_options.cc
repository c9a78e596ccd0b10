#include "stream/tflite_options.h"

#include <flatbuffers/minireflect.h>

#include <string_view>

namespace lowtide::stream {
namespace {

using flatbuffers::ElementaryType;
using flatbuffers::TypeTable;

// The trap: a field with its default value is not in the file, and the names tell no defaults. All are zero but these.
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

// Fields that the schema marks as no longer in use: the verifier does not look at them, so they must not be read.
bool deprecated(std::string_view table, std::string_view field) {
  return table == "ResizeBilinearOptions" && (field == "new_height" || field == "new_width");
}

int64_t integer(ElementaryType type, const uint8_t* at) {
  switch (type) {
    case flatbuffers::ET_BOOL:
    case flatbuffers::ET_UTYPE:
    case flatbuffers::ET_UCHAR:
      return flatbuffers::ReadScalar<uint8_t>(at);
    case flatbuffers::ET_CHAR:
      return flatbuffers::ReadScalar<int8_t>(at);
    case flatbuffers::ET_SHORT:
      return flatbuffers::ReadScalar<int16_t>(at);
    case flatbuffers::ET_USHORT:
      return flatbuffers::ReadScalar<uint16_t>(at);
    case flatbuffers::ET_INT:
      return flatbuffers::ReadScalar<int32_t>(at);
    case flatbuffers::ET_UINT:
      return flatbuffers::ReadScalar<uint32_t>(at);
    case flatbuffers::ET_LONG:
      return flatbuffers::ReadScalar<int64_t>(at);
    default:
      return static_cast<int64_t>(flatbuffers::ReadScalar<uint64_t>(at));
  }
}
double real(ElementaryType type, const uint8_t* at) {
  return type == flatbuffers::ET_FLOAT ? static_cast<double>(flatbuffers::ReadScalar<float>(at))
                                       : flatbuffers::ReadScalar<double>(at);
}
bool is_real(ElementaryType type) { return type == flatbuffers::ET_FLOAT || type == flatbuffers::ET_DOUBLE; }

// A vector of numbers; null: the field is absent.
void read_vector(ElementaryType type, const uint8_t* at, tfl::Option& option) {
  std::vector<int64_t> integers;
  std::vector<double> reals;
  size_t step = flatbuffers::InlineSize(type, nullptr);
  if (at) {
    at += flatbuffers::ReadScalar<flatbuffers::uoffset_t>(at);
    auto count = flatbuffers::ReadScalar<flatbuffers::uoffset_t>(at);
    at += sizeof(flatbuffers::uoffset_t);
    for (size_t i = 0; i < count; ++i)
      is_real(type) ? reals.push_back(real(type, at + i * step)) : integers.push_back(integer(type, at + i * step));
  }
  if (is_real(type)) {
    option.value = std::move(reals);
  } else {
    option.value = std::move(integers);
  }
}

void read_scalar(ElementaryType type, const uint8_t* at, const TypeTable* names, int64_t otherwise,
                 tfl::Option& option) {
  if (is_real(type)) {
    option.value = at ? real(type, at) : static_cast<double>(otherwise);
    return;
  }
  int64_t value = at ? integer(type, at) : otherwise;
  if (type == flatbuffers::ET_BOOL) {
    option.value = value != 0;
    return;
  }
  option.value = value;
  if (!names) return;
  const char* name = flatbuffers::EnumName(value, names);
  option.enumerator = name ? name : std::to_string(value);
}

std::vector<tfl::Option> read_table(const flatbuffers::Table& table, const TypeTable& fields, std::string_view name) {
  std::vector<tfl::Option> out;
  for (size_t i = 0; i < fields.num_elems; ++i) {
    auto code = fields.type_codes[i];
    auto type = static_cast<ElementaryType>(code.base_type);
    if (type == flatbuffers::ET_SEQUENCE || deprecated(name, fields.names[i])) continue;
    const uint8_t* at = table.GetAddressOf(flatbuffers::FieldIndexToOffset(static_cast<flatbuffers::voffset_t>(i)));
    tfl::Option option;
    option.name = fields.names[i];
    if (code.is_repeating) {
      if (type == flatbuffers::ET_STRING) continue;
      read_vector(type, at, option);
    } else if (type == flatbuffers::ET_STRING) {
      std::string text;
      if (at) text = reinterpret_cast<const flatbuffers::String*>(at + flatbuffers::ReadScalar<uint32_t>(at))->str();
      option.value = std::move(text);
    } else {
      const TypeTable* names = code.sequence_ref >= 0 ? fields.type_refs[code.sequence_ref]() : nullptr;
      read_scalar(type, at, names, default_of(name, fields.names[i]), option);
    }
    out.push_back(std::move(option));
  }
  return out;
}

void read_union(const void* table, uint8_t type, const TypeTable& tables, tfl::Operator& op) {
  if (!table || type == 0 || type >= tables.num_elems) return;  // none, or newer than our schema
  op.options_table = tables.names[type];
  const TypeTable* fields = tables.type_refs[tables.type_codes[type].sequence_ref]();
  op.options = read_table(*static_cast<const flatbuffers::Table*>(table), *fields, op.options_table);
}

}  // namespace

void read_options(const tflite::Operator& from, tfl::Operator& op) {
  read_union(from.builtin_options(), static_cast<uint8_t>(from.builtin_options_type()),
             *tflite::BuiltinOptionsTypeTable(), op);
  if (op.options_table.empty())
    read_union(from.builtin_options_2(), static_cast<uint8_t>(from.builtin_options_2_type()),
               *tflite::BuiltinOptions2TypeTable(), op);
}

}  // namespace lowtide::stream
