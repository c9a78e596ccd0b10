// SPDX-License-Identifier: Apache-2.0
// Tensors of an ONNX file: where the elements are stored, not the elements themselves (except strings).
//
// The traps: a tensor has its elements in one of nine places, and the data type determines which are allowed; a
// repeated number may be packed, in several packed runs, or one by one after tags, whatever the schema says; int32_data
// holds the bit patterns of narrow types, two 4-bit elements per entry.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "schemas/onnx.pb.h"
#include "stream/error.h"
#include "stream/onnx/parser.h"

namespace lowtide::stream {

namespace pb = ::onnx;

namespace {

// A tensor in more pieces than this is refused: the pieces would take too much memory.
constexpr size_t kMaxFileRuns = 64 * 1024;

// The typed field that holds a data type.
int typed_field_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kComplex64:
      return pb::TensorProto::kFloatDataFieldNumber;
    case DType::kFloat64:
    case DType::kComplex128:
      return pb::TensorProto::kDoubleDataFieldNumber;
    case DType::kInt64:
      return pb::TensorProto::kInt64DataFieldNumber;
    case DType::kUint32:
    case DType::kUint64:
      return pb::TensorProto::kUint64DataFieldNumber;
    case DType::kString:
      return pb::TensorProto::kStringDataFieldNumber;
    default:
      return pb::TensorProto::kInt32DataFieldNumber;
  }
}

const char* field_name(int field) {
  switch (field) {
    case pb::TensorProto::kFloatDataFieldNumber:
      return "float_data";
    case pb::TensorProto::kInt32DataFieldNumber:
      return "int32_data";
    case pb::TensorProto::kInt64DataFieldNumber:
      return "int64_data";
    case pb::TensorProto::kDoubleDataFieldNumber:
      return "double_data";
    case pb::TensorProto::kUint64DataFieldNumber:
      return "uint64_data";
    case pb::TensorProto::kStringDataFieldNumber:
      return "string_data";
    default:
      return "raw_data";
  }
}

uint64_t decimal(const std::string& key, const std::string& text, const Wire& wire, uint64_t offset) {
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    wire.fail(offset, fmt::format("external data: '{}' must be a number of bytes; it is '{}'", key, text));
  }
  return value;
}

}  // namespace

struct OnnxParser::TensorFields {
  Range raw;
  int typed_field = 0;  // the field with elements; 0: none
  std::vector<FileRun> file_runs;
  size_t strings = 0;
  bool is_external = false;
  std::string location;
  std::optional<uint64_t> external_offset, external_length;
  std::vector<std::string> external_keys;
};

std::optional<DType> onnx_dtype(int64_t number) {
  constexpr int64_t kUint2 = 25, kInt2 = 26;  // of ONNX 1.20, which is newer than the schema here
  switch (number) {
    case pb::TensorProto::UNDEFINED:
      return DType::kUndefined;
    case pb::TensorProto::FLOAT:
      return DType::kFloat32;
    case pb::TensorProto::UINT8:
      return DType::kUint8;
    case pb::TensorProto::INT8:
      return DType::kInt8;
    case pb::TensorProto::UINT16:
      return DType::kUint16;
    case pb::TensorProto::INT16:
      return DType::kInt16;
    case pb::TensorProto::INT32:
      return DType::kInt32;
    case pb::TensorProto::INT64:
      return DType::kInt64;
    case pb::TensorProto::STRING:
      return DType::kString;
    case pb::TensorProto::BOOL:
      return DType::kBool;
    case pb::TensorProto::FLOAT16:
      return DType::kFloat16;
    case pb::TensorProto::DOUBLE:
      return DType::kFloat64;
    case pb::TensorProto::UINT32:
      return DType::kUint32;
    case pb::TensorProto::UINT64:
      return DType::kUint64;
    case pb::TensorProto::COMPLEX64:
      return DType::kComplex64;
    case pb::TensorProto::COMPLEX128:
      return DType::kComplex128;
    case pb::TensorProto::BFLOAT16:
      return DType::kBFloat16;
    case pb::TensorProto::FLOAT8E4M3FN:
      return DType::kFloat8E4M3FN;
    case pb::TensorProto::FLOAT8E4M3FNUZ:
      return DType::kFloat8E4M3FNUZ;
    case pb::TensorProto::FLOAT8E5M2:
      return DType::kFloat8E5M2;
    case pb::TensorProto::FLOAT8E5M2FNUZ:
      return DType::kFloat8E5M2FNUZ;
    case pb::TensorProto::UINT4:
      return DType::kUint4;
    case pb::TensorProto::INT4:
      return DType::kInt4;
    case kUint2:
      return DType::kUint2;
    case kInt2:
      return DType::kInt2;
    case pb::TensorProto::FLOAT4E2M1:
      return DType::kFloat4E2M1;
    case pb::TensorProto::FLOAT8E8M0:
      return DType::kFloat8E8M0;
    default:
      return std::nullopt;
  }
}

DType onnx_dtype(int64_t number, const Wire& wire, uint64_t offset) {
  if (auto known = onnx_dtype(number)) return *known;
  wire.fail(offset, fmt::format("data type {} is unknown", number));
}

onnx::Tensor OnnxParser::tensor(Range body, std::string_view role) {
  onnx::Tensor tensor;
  try {
    TensorFields fields;
    tensor_fields(body, tensor, fields);
    if (tensor.dtype == DType::kUndefined) wire_.fail(body.begin, "has no data type");
    for (int64_t dim : tensor.dims)
      if (dim < 0) wire_.fail(body.begin, fmt::format("has the negative dimension {}", dim));
    set_data(tensor, fields, body.begin);
  } catch (Error& error) {
    if (tensor.name.empty()) tensor.name = tensor_name(body);
    // An offset in this file must not be combined with the name of another file.
    if (error.where().file.empty()) error.add_place({.offset = body.begin});
    error.add_place({.slot = fmt::format("{} '{}'", role, tensor.name)});
    throw;
  }
  return tensor;
}

// For messages: in the file the name often follows the field with the error. Empty when it cannot be read.
std::string OnnxParser::tensor_name(Range body) {
  std::string name;
  try {
    Message m(wire_, body);
    while (m.next() && name.empty())
      if (m.field() == pb::TensorProto::kNameFieldNumber) name = m.name();
  } catch (const Error&) {  // the first error is reported
  }
  return name;
}

onnx::SparseTensor OnnxParser::sparse_tensor(Range body, std::string_view role) {
  onnx::SparseTensor sparse;
  Message m(wire_, body);
  while (m.next()) {
    switch (m.field()) {
      case pb::SparseTensorProto::kValuesFieldNumber:
        sparse.values = tensor(m.body(), role);
        break;
      case pb::SparseTensorProto::kIndicesFieldNumber:
        sparse.indices = tensor(m.body(), "indices");
        break;
      case pb::SparseTensorProto::kDimsFieldNumber:
        m.append(sparse.dims);
        break;
      default:
        break;
    }
  }
  const Shape& values = sparse.values.dims;
  const Shape& indices = sparse.indices.dims;
  const bool fits = sparse.values.dtype != DType::kUndefined && values.size() == 1 && is_static(sparse.dims) &&
                    sparse.indices.dtype == DType::kInt64 && (indices.size() == 1 || indices.size() == 2) &&
                    indices[0] == values[0] &&
                    (indices.size() == 1 || indices[1] == static_cast<int64_t>(sparse.dims.size()));
  if (!fits) {
    wire_.fail(body.begin,
               fmt::format("{} '{}': values of shape {} and indices of shape {} do not fit a tensor of shape {}", role,
                           sparse.values.name, to_string(values), to_string(indices), to_string(sparse.dims)));
  }
  try {
    element_count(sparse.dims);
  } catch (Error& error) {
    error.add_place({.offset = body.begin, .slot = fmt::format("{} '{}'", role, sparse.values.name)});
    throw;
  }
  return sparse;
}

void OnnxParser::tensor_fields(Range body, onnx::Tensor& tensor, TensorFields& fields) {
  Message m(wire_, body);
  while (m.next()) {
    switch (m.field()) {
      case pb::TensorProto::kNameFieldNumber:
        tensor.name = m.name();
        break;
      case pb::TensorProto::kDimsFieldNumber:
        m.append(tensor.dims);
        break;
      case pb::TensorProto::kDataTypeFieldNumber:
        tensor.dtype = onnx_dtype(m.int64(), wire_, m.offset());
        break;
      case pb::TensorProto::kSegmentFieldNumber:
        m.fail("has a segment, which is not supported");
      case pb::TensorProto::kRawDataFieldNumber:
        fields.raw = m.body();
        break;
      case pb::TensorProto::kFloatDataFieldNumber:
      case pb::TensorProto::kInt32DataFieldNumber:
      case pb::TensorProto::kInt64DataFieldNumber:
      case pb::TensorProto::kDoubleDataFieldNumber:
      case pb::TensorProto::kUint64DataFieldNumber:
        typed_data(m, fields);
        break;
      case pb::TensorProto::kStringDataFieldNumber:
        if (fields.typed_field != 0 && fields.typed_field != m.field()) m.fail("has elements in more than one field");
        fields.typed_field = m.field();
        tensor.strings.push_back(m.text());
        break;
      case pb::TensorProto::kExternalDataFieldNumber:
        external_entry(m.body(), fields);
        break;
      case pb::TensorProto::kDataLocationFieldNumber: {
        const uint64_t location = m.varint();
        if (location > pb::TensorProto::EXTERNAL) m.fail(fmt::format("data_location {} is unknown", location));
        fields.is_external = location == pb::TensorProto::EXTERNAL;
        break;
      }
      default:
        break;
    }
  }
}

// One field of repeated numbers: a packed run, or one number after its tag. Adjacent tagged numbers are merged. `width`
// in bytes; 0: varints.
void OnnxParser::add_run(Message& field, uint8_t width, std::vector<FileRun>& runs) {
  FileRun file_run;
  if (field.has_length()) {
    const Range run = field.body();
    if (run.bytes() == 0) return;
    if (width != 0 && run.bytes() % width != 0)
      field.fail("the length of packed numbers is not a multiple of their width");
    file_run = {.offset = run.begin,
                .bytes = run.bytes(),
                .elements = width != 0 ? run.bytes() / width : wire_.count_varints(run),
                .encoding = width != 0 ? Encoding::kRaw : Encoding::kVarint};
  } else {
    if (width != 0) {
      field.check_fixed(width);
    } else {
      field.varint();
    }
    if (field.value_offset() - field.offset() != 1) field.fail("the field's tag is not encoded in its shortest form");
    file_run = {.offset = field.offset(),
                .bytes = field.end_offset() - field.offset(),
                .elements = 1,
                .encoding = Encoding::kTagged,
                .width = width};
  }
  if (!runs.empty()) {
    FileRun& last = runs.back();
    if (last.encoding == Encoding::kTagged && file_run.encoding == Encoding::kTagged &&
        last.offset + last.bytes == file_run.offset) {
      last.bytes += file_run.bytes;
      ++last.elements;
      return;
    }
  }
  if (runs.size() == kMaxFileRuns) field.fail(fmt::format("has its elements in more than {} pieces", kMaxFileRuns));
  runs.push_back(file_run);
}

void OnnxParser::typed_data(Message& field, TensorFields& fields) {
  if (field.has_length() && field.body().bytes() == 0) return;
  if (fields.typed_field != 0 && fields.typed_field != field.field()) field.fail("has elements in more than one field");
  fields.typed_field = field.field();
  const bool is_float = field.field() == pb::TensorProto::kFloatDataFieldNumber;
  const bool is_double = field.field() == pb::TensorProto::kDoubleDataFieldNumber;
  add_run(field, is_float ? 4 : is_double ? 8 : 0, fields.file_runs);
}

// AttributeProto.floats and ints have the form of typed data.
onnx::Tensor OnnxParser::listed_tensor(std::vector<FileRun> runs, DType dtype) {
  uint64_t elements = 0;
  for (const FileRun& run : runs) elements = checked_add(elements, run.elements);
  onnx::Tensor out;
  out.dtype = dtype;
  out.dims = {static_cast<int64_t>(elements)};
  out.data = recipe::stored(source_, std::move(runs), dtype, out.dims);
  return out;
}

void OnnxParser::external_entry(Range body, TensorFields& fields) {
  auto [key, value] = key_value(body);
  if (std::find(fields.external_keys.begin(), fields.external_keys.end(), key) != fields.external_keys.end()) {
    wire_.fail(body.begin, fmt::format("external data: entry '{}' is given twice", key));
  }
  if (key == "location") {
    fields.location = value;
  } else if (key == "offset") {
    fields.external_offset = decimal(key, value, wire_, body.begin);
  } else if (key == "length") {
    fields.external_length = decimal(key, value, wire_, body.begin);
  } else if (key != "checksum") {
    wire_.fail(body.begin, fmt::format("external data: entry '{}' is unknown", key));
  }
  fields.external_keys.push_back(std::move(key));
}

void OnnxParser::set_data(onnx::Tensor& tensor, TensorFields& fields, uint64_t offset) {
  const uint64_t elements = element_count(tensor.dims);
  const bool has_raw = fields.raw.bytes() != 0;
  if (int{has_raw} + int{fields.typed_field != 0} + int{fields.is_external} > 1) {
    wire_.fail(offset, "has elements in more than one place");
  }
  if (fields.is_external) return set_external(tensor, fields, offset);
  if (fields.typed_field != 0) return set_typed(tensor, fields, offset);
  if (!fields.external_keys.empty()) wire_.fail(offset, "has external_data, but its data_location is not EXTERNAL");
  if (tensor.dtype == DType::kString) {
    if (has_raw || elements != 0)
      wire_.fail(offset, fmt::format("has {} strings by its shape, but no string_data", elements));
    return;
  }
  const uint64_t bytes = file_bytes(tensor.dtype, elements);
  if (!has_raw && bytes != 0) wire_.fail(offset, fmt::format("has {} elements by its shape, but no data", elements));
  if (fields.raw.bytes() != bytes) {
    wire_.fail(offset, fmt::format("{} {} needs {} bytes, but raw_data has {}", dtype_name(tensor.dtype),
                                   to_string(tensor.dims), bytes, fields.raw.bytes()));
  }
  if (bytes == 0) {
    tensor.data = recipe::inline_lanes({}, tensor.dtype, tensor.dims);
    return;
  }
  tensor.data = recipe::stored(source_, {FileRun{.offset = fields.raw.begin, .bytes = bytes, .elements = elements}},
                               tensor.dtype, tensor.dims);
}

void OnnxParser::set_external(onnx::Tensor& tensor, const TensorFields& fields, uint64_t offset) {
  if (tensor.dtype == DType::kString) wire_.fail(offset, "string tensors cannot have external data");
  if (files_ == nullptr) {
    throw Error(Code::kUnsafePath, "has external data, but the model has no folder to resolve it in");
  }
  const uint64_t elements = element_count(tensor.dims);
  const uint64_t bytes = file_bytes(tensor.dtype, elements);
  // A length of 0 is as none: ONNX Runtime reads it so.
  if (fields.external_length.value_or(0) != 0 && fields.external_length != bytes) {
    wire_.fail(offset, fmt::format("{} {} needs {} bytes, but its external data has {}", dtype_name(tensor.dtype),
                                   to_string(tensor.dims), bytes, *fields.external_length));
  }
  std::shared_ptr<Source> file = files_->open(fields.location);
  const uint64_t begin = fields.external_offset.value_or(0);
  if (begin > file->size() || bytes > file->size() - begin) {
    wire_.fail(offset, fmt::format("{} bytes at offset {} are outside the external file '{}' of {} bytes", bytes, begin,
                                   fields.location, file->size()));
  }
  external_bytes_ = checked_add(external_bytes_, bytes);
  if (bytes == 0) {
    tensor.data = recipe::inline_lanes({}, tensor.dtype, tensor.dims);
    return;
  }
  tensor.data = recipe::stored(std::move(file), {FileRun{.offset = begin, .bytes = bytes, .elements = elements}},
                               tensor.dtype, tensor.dims);
}

void OnnxParser::set_typed(onnx::Tensor& tensor, TensorFields& fields, uint64_t offset) {
  if (typed_field_of(tensor.dtype) != fields.typed_field) {
    wire_.fail(offset, fmt::format("has type {}, but its elements are in {}", dtype_name(tensor.dtype),
                                   field_name(fields.typed_field)));
  }
  const uint64_t elements = element_count(tensor.dims);
  const bool is_complex = tensor.dtype == DType::kComplex64 || tensor.dtype == DType::kComplex128;
  constexpr int kByte = 8;
  const int width = bits(tensor.dtype);  // 0: of texts
  const uint64_t packed = width > 0 && width < kByte ? static_cast<uint64_t>(kByte / width) : 1;
  uint64_t numbers = tensor.strings.size();
  for (const FileRun& file_run : fields.file_runs) numbers += file_run.elements;
  const uint64_t wanted = is_complex ? checked_mul(elements, 2) : elements / packed + (elements % packed != 0 ? 1 : 0);
  if (numbers != wanted) {
    wire_.fail(offset, fmt::format("{} {} needs {} numbers, but {} has {}", dtype_name(tensor.dtype),
                                   to_string(tensor.dims), wanted, field_name(fields.typed_field), numbers));
  }
  if (tensor.dtype == DType::kString) return;
  if (is_complex) {
    for (FileRun& file_run : fields.file_runs) {
      if (file_run.encoding != Encoding::kRaw || file_run.elements % 2 != 0) {
        wire_.fail(offset, "complex numbers must be in packed pairs");
      }
      file_run.elements /= 2;
    }
  }
  if (packed > 1) {  // a part of the last number may be unused
    for (FileRun& file_run : fields.file_runs) file_run.elements *= packed;
    if (!fields.file_runs.empty()) fields.file_runs.back().elements -= numbers * packed - elements;
  }
  tensor.data = recipe::stored(source_, std::move(fields.file_runs), tensor.dtype, tensor.dims);
}

}  // namespace lowtide::stream
