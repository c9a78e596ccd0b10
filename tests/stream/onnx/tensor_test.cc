// SPDX-License-Identifier: Apache-2.0
// Tensors in each of the forms that ONNX has for them. The files are made by protobuf's generated classes, or byte by
// byte where those cannot write a form.
#include <functional>
#include <limits>

#include "schemas/onnx.pb.h"
#include "stream/onnx/reader.h"
#include "stream/recipe/recipe_reader.h"
#include "tests/stream/scratch.h"

namespace lowtide::stream {
namespace {

namespace pb = ::onnx;
using pb::TensorProto;

std::string model_with(const std::string& initializer) {
  pb::ModelProto model;
  model.set_ir_version(10);
  model.add_opset_import()->set_version(21);
  model.mutable_graph()->set_name("g");
  std::string tensor;
  pb::GraphProto graph;  // an initializer of raw bytes: field 5 of the graph, merged into it by appending
  std::string bytes = model.SerializeAsString();
  auto varint = [](uint64_t value) {
    std::string out;
    for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
    return out + static_cast<char>(value);
  };
  std::string field = std::string("\x2a") + varint(initializer.size()) + initializer;
  return bytes + "\x3a" + varint(field.size()) + field;
}

onnx::Tensor read_tensor(const std::string& bytes) {
  Budget budget(1 << 20);
  onnx::Model model = read_onnx(memory_source(to_bytes(model_with(bytes)), "net.onnx"), {}, budget);
  EXPECT_EQ(model.graph.initializers.size(), 1u);
  return model.graph.initializers.at(0);
}
onnx::Tensor read_tensor(const TensorProto& tensor) { return read_tensor(tensor.SerializeAsString()); }

const step::Stored& stored_of(const onnx::Tensor& tensor) { return std::get<step::Stored>(tensor.data->step); }

// The bytes of a run, as they are in the file.
std::string bytes_of(const onnx::Tensor& tensor, size_t file_run = 0) {
  const step::Stored& stored = stored_of(tensor);
  return read_text(*stored.source, stored.file_runs.at(file_run).offset, stored.file_runs.at(file_run).bytes);
}

template <typename T>
std::string bytes_of_values(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

TensorProto proto(TensorProto::DataType type, const std::vector<int64_t>& dims) {
  TensorProto tensor;
  tensor.set_name("w");
  tensor.set_data_type(type);
  for (int64_t dim : dims) tensor.add_dims(dim);
  return tensor;
}

TEST(OnnxTensor, RawDataIsStored) {
  TensorProto t = proto(TensorProto::FLOAT16, {2, 3});
  t.set_raw_data("abcdefghijkl");
  onnx::Tensor read = read_tensor(t);
  EXPECT_EQ(read.name, "w");
  EXPECT_EQ(read.dtype, DType::kFloat16);
  EXPECT_EQ(read.dims, (Shape{2, 3}));
  EXPECT_NE(recipe::plain_stored(*read.data), nullptr);
  EXPECT_EQ(bytes_of(read), "abcdefghijkl");
}

TEST(OnnxTensor, EveryDataTypeHasItsSize) {
  struct Case {
    TensorProto::DataType type;
    DType dtype;
    uint64_t bytes;  // of 7 elements
  };
  const std::vector<Case> cases = {
      {TensorProto::FLOAT, DType::kFloat32, 28},
      {TensorProto::UINT8, DType::kUint8, 7},
      {TensorProto::INT8, DType::kInt8, 7},
      {TensorProto::UINT16, DType::kUint16, 14},
      {TensorProto::INT16, DType::kInt16, 14},
      {TensorProto::INT32, DType::kInt32, 28},
      {TensorProto::INT64, DType::kInt64, 56},
      {TensorProto::BOOL, DType::kBool, 7},
      {TensorProto::FLOAT16, DType::kFloat16, 14},
      {TensorProto::DOUBLE, DType::kFloat64, 56},
      {TensorProto::UINT32, DType::kUint32, 28},
      {TensorProto::UINT64, DType::kUint64, 56},
      {TensorProto::COMPLEX64, DType::kComplex64, 56},
      {TensorProto::COMPLEX128, DType::kComplex128, 112},
      {TensorProto::BFLOAT16, DType::kBFloat16, 14},
      {TensorProto::FLOAT8E4M3FN, DType::kFloat8E4M3FN, 7},
      {TensorProto::FLOAT8E4M3FNUZ, DType::kFloat8E4M3FNUZ, 7},
      {TensorProto::FLOAT8E5M2, DType::kFloat8E5M2, 7},
      {TensorProto::FLOAT8E5M2FNUZ, DType::kFloat8E5M2FNUZ, 7},
      {TensorProto::FLOAT8E8M0, DType::kFloat8E8M0, 7},
      {TensorProto::UINT4, DType::kUint4, 4},
      {TensorProto::INT4, DType::kInt4, 4},
      {TensorProto::FLOAT4E2M1, DType::kFloat4E2M1, 4},
  };
  EXPECT_EQ(cases.size() + 2, static_cast<size_t>(TensorProto::DataType_ARRAYSIZE));  // and UNDEFINED, STRING
  for (const Case& c : cases) {
    TensorProto t = proto(c.type, {7});
    t.set_raw_data(std::string(c.bytes, 'x'));
    EXPECT_EQ(read_tensor(t).dtype, c.dtype);
    t.set_raw_data(std::string(c.bytes + 1, 'x'));
    expect_error(Code::kMalformed, "initializer 'w'", [&] { read_tensor(t); });
    t.set_raw_data(std::string(c.bytes - 1, 'x'));
    expect_error(Code::kMalformed, "bytes, but raw_data has", [&] { read_tensor(t); });
  }
}

TEST(OnnxTensor, BooleanBytesBecomeZeroAndOne) {
  TensorProto t = proto(TensorProto::BOOL, {3});
  t.set_raw_data(std::string("\0\1\2", 3));
  EXPECT_EQ(recipe::plain_stored(*read_tensor(t).data), nullptr);  // to be copied as it is
  Budget budget(1 << 20);
  EXPECT_EQ(evaluate_ints(read_tensor(t).data, budget), (std::vector<int64_t>{0, 1, 1}));
}

TEST(OnnxTensor, PackedTypedFields) {
  TensorProto f = proto(TensorProto::FLOAT, {3});
  for (float v : {1.5F, -2.0F, 3.0F}) f.add_float_data(v);
  EXPECT_NE(recipe::plain_stored(*read_tensor(f).data), nullptr);
  EXPECT_EQ(bytes_of(read_tensor(f)), bytes_of_values<float>({1.5F, -2.0F, 3.0F}));

  TensorProto d = proto(TensorProto::DOUBLE, {2});
  for (double v : {1e300, -2.0}) d.add_double_data(v);
  EXPECT_EQ(bytes_of(read_tensor(d)), bytes_of_values<double>({1e300, -2.0}));

  TensorProto c = proto(TensorProto::COMPLEX64, {2});
  for (float v : {1.0F, 2.0F, 3.0F, 4.0F}) c.add_float_data(v);
  EXPECT_EQ(stored_of(read_tensor(c)).file_runs.at(0).elements, 2u);

  TensorProto i = proto(TensorProto::INT64, {3});
  for (int64_t v : {int64_t{-1}, int64_t{300}, std::numeric_limits<int64_t>::min()}) i.add_int64_data(v);
  onnx::Tensor read = read_tensor(i);
  EXPECT_EQ(stored_of(read).file_runs.at(0).encoding, Encoding::kVarint);
  EXPECT_EQ(stored_of(read).file_runs.at(0).elements, 3u);
  EXPECT_EQ(stored_of(read).file_runs.at(0).bytes, 10u + 2u + 10u);

  for (auto type : {TensorProto::INT32, TensorProto::INT16, TensorProto::INT8, TensorProto::UINT16, TensorProto::UINT8,
                    TensorProto::BOOL, TensorProto::FLOAT16, TensorProto::BFLOAT16, TensorProto::FLOAT8E5M2}) {
    TensorProto n = proto(type, {4});
    for (int v : {0, 1, 1, 0}) n.add_int32_data(v);
    EXPECT_EQ(bytes_of(read_tensor(n)), std::string("\0\1\1\0", 4));
  }
  for (auto type : {TensorProto::UINT32, TensorProto::UINT64}) {
    TensorProto n = proto(type, {2});
    for (unsigned v : {7U, 8U}) n.add_uint64_data(v);
    EXPECT_EQ(bytes_of(read_tensor(n)), "\7\10");
  }
}

TEST(OnnxTensor, HalfBytesStandTwoToANumber) {
  for (auto type : {TensorProto::INT4, TensorProto::UINT4, TensorProto::FLOAT4E2M1}) {
    TensorProto n = proto(type, {5});
    for (int v : {0x21, 0x43, 0x05}) n.add_int32_data(v);
    EXPECT_EQ(stored_of(read_tensor(n)).file_runs.at(0).elements, 5u);
    n.add_int32_data(1);
    expect_error(Code::kMalformed, "needs 3 numbers, but int32_data has 4", [&] { read_tensor(n); });
  }
}

// Tag and body of a field, for forms that the generated classes do not write.
std::string chunk(int number, const std::string& body) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(body.size())} + body;
}
std::string tagged(int number, int type, const std::string& body) {
  return std::string{static_cast<char>(number << 3 | type)} + body;
}

TEST(OnnxTensor, UnpackedAndChunkedTypedFields) {
  const std::string one = bytes_of_values<float>({1.0F}), two = bytes_of_values<float>({2.0F, 3.0F});
  std::string head = proto(TensorProto::FLOAT, {5}).SerializeAsString();
  onnx::Tensor f =
      read_tensor(chunk(4, two) + head + chunk(4, "") + tagged(4, 5, one) + tagged(4, 5, one) + chunk(4, one));
  ASSERT_EQ(stored_of(f).file_runs.size(), 3u);
  EXPECT_EQ(bytes_of(f, 0), two);
  EXPECT_EQ(stored_of(f).file_runs[1].encoding, Encoding::kTagged);
  EXPECT_EQ(stored_of(f).file_runs[1].width, 4);
  EXPECT_EQ(stored_of(f).file_runs[1].elements, 2u);
  EXPECT_EQ(bytes_of(f, 1), tagged(4, 5, one) + tagged(4, 5, one));
  EXPECT_EQ(bytes_of(f, 2), one);

  head = proto(TensorProto::INT64, {4}).SerializeAsString();
  onnx::Tensor i = read_tensor(head + tagged(7, 0, "\x05") + tagged(7, 0, "\xac\x02") + chunk(7, "\x01\xac\x02"));
  ASSERT_EQ(stored_of(i).file_runs.size(), 2u);
  EXPECT_EQ(stored_of(i).file_runs[0].width, 0);
  EXPECT_EQ(stored_of(i).file_runs[0].elements, 2u);
  EXPECT_EQ(stored_of(i).file_runs[1].elements, 2u);

  // dims are not packed by protobuf's writers, and may be
  std::string packed_dims = chunk(1, "\x02\x03") + "\x10\x03" + chunk(9, "abcdef");
  EXPECT_EQ(read_tensor(packed_dims).dims, (Shape{2, 3}));
}

// Read, placed as stored elements, and run: the numbers that the writer put in.
TEST(OnnxTensor, NumbersComeBack) {
  Budget budget(4 << 20);
  auto ints = [&](const onnx::Tensor& tensor) { return evaluate_ints(tensor.data, budget); };
  auto doubles = [&](const onnx::Tensor& tensor) { return evaluate_doubles(tensor.data, budget); };
  using Ints = std::vector<int64_t>;
  auto int32 = [](TensorProto::DataType type, int64_t count, std::initializer_list<int32_t> numbers) {
    TensorProto t = proto(type, {count});
    for (int32_t number : numbers) t.add_int32_data(number);
    return t;
  };
  EXPECT_EQ(ints(read_tensor(int32(TensorProto::INT32, 3, {-1, 70000, 0}))), (Ints{-1, 70000, 0}));
  EXPECT_EQ(ints(read_tensor(int32(TensorProto::INT16, 3, {-1, -32768, 5}))), (Ints{-1, -32768, 5}));
  EXPECT_EQ(ints(read_tensor(int32(TensorProto::INT8, 3, {-128, 127, -3}))), (Ints{-128, 127, -3}));
  EXPECT_EQ(ints(read_tensor(int32(TensorProto::UINT16, 2, {65535, 1}))), (Ints{65535, 1}));
  EXPECT_EQ(ints(read_tensor(int32(TensorProto::UINT8, 2, {255, 1}))), (Ints{255, 1}));
  EXPECT_EQ(ints(read_tensor(int32(TensorProto::BOOL, 3, {1, 0, 1}))), (Ints{1, 0, 1}));
  // As onnx.helper packs them: the first element in the low half.
  EXPECT_EQ(ints(read_tensor(int32(TensorProto::INT4, 5, {0x9f, 0x70, 0x08}))), (Ints{-1, -7, 0, 7, -8}));
  EXPECT_EQ(ints(read_tensor(int32(TensorProto::UINT4, 3, {0x9f, 0x00}))), (Ints{15, 9, 0}));
  // Of ONNX 1.20, which the generated classes are older than.
  const auto uint2 = static_cast<TensorProto::DataType>(25), int2 = static_cast<TensorProto::DataType>(26);
  EXPECT_EQ(ints(read_tensor(int32(uint2, 5, {0xe4, 0x01}))), (Ints{0, 1, 2, 3, 1}));
  EXPECT_EQ(ints(read_tensor(int32(int2, 5, {0xe4, 0x01}))), (Ints{0, 1, -2, -1, 1}));
  EXPECT_EQ(doubles(read_tensor(int32(TensorProto::FLOAT16, 2, {0x3c00, 0xc100}))), (std::vector<double>{1, -2.5}));
  EXPECT_EQ(doubles(read_tensor(int32(TensorProto::BFLOAT16, 2, {0x3f80, 0xc020}))), (std::vector<double>{1, -2.5}));

  std::string head = proto(TensorProto::INT4, {7}).SerializeAsString();
  EXPECT_EQ(ints(read_tensor(head + tagged(5, 0, "\x21") + chunk(5, "\x43\x65") + tagged(5, 0, "\x07"))),
            (Ints{1, 2, 3, 4, 5, 6, 7}));
  head = proto(TensorProto::INT64, {4}).SerializeAsString();
  EXPECT_EQ(ints(read_tensor(head + tagged(7, 0, "\x05") + tagged(7, 0, "\xac\x02") + chunk(7, "\x01\xac\x02"))),
            (Ints{5, 300, 1, 300}));
  head = proto(TensorProto::DOUBLE, {3}).SerializeAsString();
  const std::string first = bytes_of_values<double>({1e300}), rest = bytes_of_values<double>({-2, 0.5});
  EXPECT_EQ(doubles(read_tensor(head + tagged(10, 1, first) + chunk(10, rest))), (std::vector<double>{1e300, -2, 0.5}));
}

TEST(OnnxTensor, StringsAreHeld) {
  TensorProto s = proto(TensorProto::STRING, {2});
  s.add_string_data("one");
  s.add_string_data(std::string("\0\xff", 2));
  onnx::Tensor read = read_tensor(s);
  EXPECT_EQ(read.data, nullptr);
  EXPECT_EQ(read.strings, (std::vector<std::string>{"one", std::string("\0\xff", 2)}));
  s.add_string_data("three");
  expect_error(Code::kMalformed, "needs 2 numbers", [&] { read_tensor(s); });
}

TEST(OnnxTensor, NothingIsHeldByAnEmptyTensor) {
  onnx::Tensor read = read_tensor(proto(TensorProto::FLOAT, {0, 1LL << 40, 1LL << 40}));
  EXPECT_EQ(read.data->elements(), 0u);
  EXPECT_TRUE(read_tensor(proto(TensorProto::STRING, {0})).strings.empty());
}

TEST(OnnxTensor, ContradictionsAreErrors) {
  auto refused = [](const std::string& part, const std::function<void(TensorProto&)>& change,
                    Code code = Code::kMalformed) {
    TensorProto t = proto(TensorProto::FLOAT, {2});
    change(t);
    expect_error(code, part, [&] { read_tensor(t); });
  };
  refused("has 2 elements by its shape, but no data", [](auto&) {});
  refused("elements in more than one place", [](auto& t) {
    t.set_raw_data("12345678");
    t.add_float_data(1);
  });
  refused("elements in more than one field", [](auto& t) {
    t.add_float_data(1);
    t.add_int32_data(1);
  });
  refused("has type f32, but its elements are in int32_data", [](auto& t) { t.add_int32_data(1); });
  refused("has type bool, but its elements are in float_data", [](auto& t) {
    t.set_data_type(TensorProto::BOOL);
    t.add_float_data(1);
  });
  refused("needs 2 numbers, but float_data has 3", [](auto& t) {
    for (int i = 0; i < 3; ++i) t.add_float_data(1);
  });
  refused("negative dimension -2", [](auto& t) { t.add_dims(-2); });
  refused("overflows", [](auto& t) {
    t.add_dims(1LL << 62);
    t.add_dims(1LL << 62);
  });
  refused("overflows", [](auto& t) { t.set_dims(0, 1LL << 62); });
  refused("initializer 'w', byte 17: data type 99 is unknown", [](auto& t) { t.set_data_type(99); });
  refused("has no data type", [](auto& t) { t.clear_data_type(); });
  refused("segment", [](auto& t) { t.mutable_segment()->set_begin(0); });
  refused("strings", [](auto& t) {
    t.set_data_type(TensorProto::STRING);
    t.set_raw_data("12345678");
  });
  refused("data_location is not EXTERNAL", [](auto& t) {
    auto* entry = t.add_external_data();
    entry->set_key("location");
    entry->set_value("weights");
  });
  refused(
      "the model has no folder", [](auto& t) { t.set_data_location(TensorProto::EXTERNAL); }, Code::kUnsafePath);
}

TEST(OnnxTensor, SparseTensors) {
  pb::ModelProto model;
  model.set_ir_version(10);
  model.add_opset_import()->set_version(21);
  pb::SparseTensorProto* sparse = model.mutable_graph()->add_sparse_initializer();
  *sparse->mutable_values() = proto(TensorProto::FLOAT, {3});
  sparse->mutable_values()->set_raw_data("123456789012");
  *sparse->mutable_indices() = proto(TensorProto::INT64, {3, 2});
  for (int v : {0, 1, 1, 2, 4, 6}) sparse->mutable_indices()->add_int64_data(v);
  for (int v : {5, 7}) sparse->add_dims(v);
  auto read = [&] {
    Budget budget(1 << 20);
    return read_onnx(memory_source(to_bytes(model.SerializeAsString()), "net.onnx"), {}, budget);
  };
  onnx::SparseTensor got = read().graph.sparse_initializers.at(0);
  EXPECT_EQ(got.dims, (Shape{5, 7}));
  EXPECT_EQ(got.values.name, "w");
  EXPECT_EQ(got.indices.dims, (Shape{3, 2}));
  sparse->add_dims(3);
  expect_error(Code::kMalformed, "do not fit a tensor of shape [5,7,3]", read);
  sparse->mutable_dims()->RemoveLast();
  sparse->mutable_dims()->Set(0, -5);
  expect_error(Code::kMalformed, "do not fit a tensor of shape", read);
  sparse->clear_values();
  expect_error(Code::kMalformed, "do not fit a tensor of shape", read);
}

}  // namespace
}  // namespace lowtide::stream
