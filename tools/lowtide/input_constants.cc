// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/input_constants.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "stream/error.h"
#include "stream/file/file.h"
#include "tools/lowtide/command_line.h"

namespace lowtide::tools {
namespace {

using stream::Code;
using stream::DType;
using stream::Error;
using stream::RecipeRef;
using stream::Shape;

template <typename T>
std::vector<T> numbers_of(const std::string& name, DType dtype, const std::string& text) {
  std::vector<T> out;
  const char* at = text.data();
  const char* end = at + text.size();
  while (true) {
    T number{};
    const auto [rest, error] = std::from_chars(at, end, number);
    if (error != std::errc() || (rest != end && *rest != ','))
      usage_error(fmt::format("--const {}: '{}' is not a list of numbers of type {}, nor a .npy file", name, text,
                              stream::dtype_name(dtype)));
    out.push_back(number);
    if (rest == end) return out;
    at = rest + 1;
  }
}

// The input's shape with `count` elements.
Shape shape_for(const onnx::ValueInfo& input, uint64_t count) {
  if (!input.has_shape) return count == 1 ? Shape{} : Shape{static_cast<int64_t>(count)};
  Shape shape;
  std::vector<size_t> open;
  uint64_t known = 1;
  for (const onnx::Dimension& dim : input.dims) {
    if (dim.value < 0) open.push_back(shape.size());
    if (dim.value >= 0 && known <= count) known *= static_cast<uint64_t>(dim.value);
    shape.push_back(dim.value);
  }
  if (open.size() > 1 && count == 1 && known == 1) {  // one element has one shape of this rank
    std::replace_if(
        shape.begin(), shape.end(), [](int64_t extent) { return extent < 0; }, 1);
    return shape;
  }
  if (open.size() == 1 && known > 0 && count % known == 0) {
    shape[open[0]] = static_cast<int64_t>(count / known);
    return shape;
  }
  if (!open.empty() || known != count)
    usage_error(fmt::format("--const {}: {} numbers do not fit the input's shape {}", input.name, count,
                            stream::to_string(shape)));
  return shape;
}

RecipeRef from_text(const onnx::ValueInfo& input, const std::string& text) {
  if (input.dtype == DType::kBool && (text == "true" || text == "false"))
    return stream::recipe::ints(std::vector<int64_t>{text == "true"}, input.dtype, shape_for(input, 1));
  if (input.dtype == DType::kFloat32) {
    const std::vector<float> values = numbers_of<float>(input.name, input.dtype, text);
    return stream::recipe::floats(values, shape_for(input, values.size()));
  }
  if (stream::is_float(input.dtype)) {
    const std::vector<double> values = numbers_of<double>(input.name, input.dtype, text);
    return stream::recipe::cast(
        stream::recipe::values(std::span(values), DType::kFloat64, shape_for(input, values.size())), input.dtype);
  }
  if (!stream::is_integer(input.dtype) && input.dtype != DType::kBool)
    usage_error(
        fmt::format("--const {}: an input of type {} cannot be frozen", input.name, stream::dtype_name(input.dtype)));
  if (input.dtype == DType::kUint64) {
    const std::vector<uint64_t> values = numbers_of<uint64_t>(input.name, input.dtype, text);
    return stream::recipe::values(std::span(values), input.dtype, shape_for(input, values.size()));
  }
  const std::vector<int64_t> values = numbers_of<int64_t>(input.name, input.dtype, text);
  const Shape shape = shape_for(input, values.size());
  const bool is_bool = input.dtype == DType::kBool;
  try {
    if (is_bool && std::any_of(values.begin(), values.end(), [](int64_t value) { return value < 0 || value > 1; }))
      throw Error(Code::kMalformed, "a bool is 0 or 1");
    return stream::recipe::ints(values, input.dtype, shape);
  } catch (const Error& error) {
    usage_error(fmt::format("--const {}: {}", input.name, error.text()));
  }
}

// ---- .npy: magic, version, length of the header, the header (a Python dict as text), the elements ----

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr size_t kMostNpyHeader = 64 << 10;

struct NpyType {
  std::string_view name;
  DType dtype;
};
constexpr NpyType kNpyTypes[] = {
    {"<f2", DType::kFloat16}, {"<f4", DType::kFloat32}, {"<f8", DType::kFloat64}, {"|b1", DType::kBool},
    {"|i1", DType::kInt8},    {"|u1", DType::kUint8},   {"<i2", DType::kInt16},   {"<u2", DType::kUint16},
    {"<i4", DType::kInt32},   {"<u4", DType::kUint32},  {"<i8", DType::kInt64},   {"<u8", DType::kUint64},
};

[[noreturn]] void bad_npy(const std::string& path, std::string text) {
  throw Error(Code::kMalformed, std::move(text), {.file = path});
}

// What stands behind 'key': in the header.
std::string_view npy_field(const std::string& path, std::string_view header, std::string_view key) {
  const size_t at = header.find(fmt::format("'{}':", key));
  if (at == std::string_view::npos) bad_npy(path, fmt::format("the .npy header has no '{}'", key));
  std::string_view rest = header.substr(at + key.size() + 3);
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  return rest;
}

Shape npy_shape(const std::string& path, std::string_view text) {
  Shape shape;
  if (!text.starts_with('(')) bad_npy(path, "the shape in the .npy header is not a tuple");
  text.remove_prefix(1);
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(" ,"), text.size()));
    if (text.starts_with(')')) return shape;
    int64_t extent = -1;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
    if (error != std::errc() || extent < 0) bad_npy(path, "the shape in the .npy header is not a list of extents");
    shape.push_back(extent);
    text.remove_prefix(static_cast<size_t>(rest - text.data()));
  }
}

RecipeRef from_npy(onnx::Model& model, const std::string& path) {
  std::shared_ptr<stream::Source> source = stream::open_file(path);
  constexpr size_t kFixed = 12;  // magic, version, and a length of 2 or 4 bytes
  std::vector<std::byte> start(std::min<uint64_t>(source->size(), kFixed));
  source->read_at(0, start);
  if (start.size() < kFixed || std::memcmp(start.data(), kNpyMagic.data(), kNpyMagic.size()) != 0)
    bad_npy(path, "it is not a .npy file");
  const auto byte = [&](size_t i) { return std::to_integer<size_t>(start[i]); };
  const size_t prefix = byte(6) == 1 ? 10 : 12;
  size_t length = byte(8) + (byte(9) << 8);
  if (prefix == 12) length += (byte(10) << 16) + (byte(11) << 24);
  if (length > kMostNpyHeader || prefix + length > source->size()) bad_npy(path, "its .npy header is cut or too long");
  std::string header(length, '\0');
  source->read_at(prefix, std::as_writable_bytes(std::span(header)));
  std::string_view descr = npy_field(path, header, "descr");
  if (!descr.starts_with('\'')) bad_npy(path, "its elements are records, not numbers");
  descr = descr.substr(1, descr.find('\'', 1) - 1);
  const auto* type = std::find_if(std::begin(kNpyTypes), std::end(kNpyTypes),
                                  [&](const NpyType& known) { return known.name == descr; });
  if (type == std::end(kNpyTypes))
    bad_npy(path, fmt::format("its elements are '{}'; little-endian numbers and bool are read", descr));
  Shape shape = npy_shape(path, npy_field(path, header, "shape"));
  if (npy_field(path, header, "fortran_order").starts_with("True") && shape.size() > 1)
    bad_npy(path, "its elements are in Fortran order; save numpy.ascontiguousarray(...) of the array");
  const uint64_t elements = stream::element_count(shape);
  const uint64_t bytes = stream::file_bytes(type->dtype, elements);
  if (source->size() - prefix - length != bytes)
    bad_npy(path,
            fmt::format("it has {} bytes of elements; its shape needs {}", source->size() - prefix - length, bytes));
  model.sources.push_back(source);
  return stream::recipe::stored(std::move(source), {{.offset = prefix + length, .bytes = bytes, .elements = elements}},
                                type->dtype, std::move(shape));
}

}  // namespace

RecipeRef input_constant(onnx::Model& model, const onnx::ValueInfo& input, const std::string& text) {
  return text.ends_with(".npy") ? from_npy(model, text) : from_text(input, text);
}

}  // namespace lowtide::tools
