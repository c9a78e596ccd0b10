// SPDX-License-Identifier: Apache-2.0
#include "emit/onnx_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <numeric>

#include "schemas/onnx.pb.h"
#include "stream/error.h"
#include "stream/file/file.h"
#include "stream/file/out_file.h"
#include "stream/onnx/reader.h"
#include "stream/recipe/recipe_reader.h"
#include "tests/stream/scratch.h"

namespace lowtide::emit {
namespace {

namespace fs = std::filesystem;
namespace pb = ::onnx;
namespace recipe = stream::recipe;
using onnx::Attribute;
using onnx::ValueInfo;
using stream::Code;
using stream::DType;
using testing::ElementsAre;
using Weights = OnnxWriteOptions::Weights;

constexpr int64_t kWeightRows = 300, kWeightColumns = 7;

std::vector<float> counted(size_t count, float start) {
  std::vector<float> out(count);
  std::iota(out.begin(), out.end(), start);
  return out;
}

ValueInfo tensor_info(const std::string& name, std::vector<onnx::Dimension> dims) {
  ValueInfo info;
  info.name = name;
  info.type = ValueInfo::Type::kTensor;
  info.dtype = DType::kFloat32;
  info.has_shape = true;
  info.dims = std::move(dims);
  return info;
}

onnx::Node onnx_node(const std::string& op, std::vector<std::string> inputs, std::vector<std::string> outputs) {
  onnx::Node out;
  out.op_type = op;
  out.name = "node of " + outputs[0];
  out.inputs = std::move(inputs);
  out.outputs = std::move(outputs);
  return out;
}

Attribute attribute(const std::string& name, Attribute::Type type) {
  Attribute out;
  out.name = name;
  out.type = type;
  return out;
}

// x[n,7] -> MatMul with a transposed weight -> Add -> y[n,300]
onnx::Model onnx_network() {
  onnx::Model model;
  model.ir_version = 8;
  model.opsets[""] = 17;
  model.producer_name = "test";
  model.metadata["key"] = "value";
  onnx::Graph& graph = model.graph;
  graph.name = "g";
  graph.inputs.push_back(tensor_info("x", {{-1, "n"}, {kWeightColumns, ""}}));
  graph.outputs.push_back(tensor_info("y", {{-1, "n"}, {kWeightRows, ""}}));
  graph.value_info.push_back(tensor_info("m", {{-1, ""}, {kWeightRows, ""}}));
  graph.nodes.push_back(onnx_node("MatMul", {"x", "w"}, {"m"}));
  graph.nodes.push_back(onnx_node("Add", {"m", "b"}, {"y"}));
  const auto values = counted(kWeightRows * kWeightColumns, 1);
  auto stored = recipe::floats(values, {kWeightRows, kWeightColumns});
  graph.initializers.push_back(
      {"w", DType::kFloat32, {kWeightColumns, kWeightRows}, recipe::permute(stored, {1, 0}), {}});
  graph.initializers.push_back({"b", DType::kFloat32, {1}, recipe::fill_value(0.5, DType::kFloat32, {1}), {}});
  return model;
}

pb::ModelProto parsed_onnx(const fs::path& path) {
  pb::ModelProto proto;
  EXPECT_TRUE(proto.ParseFromString(stream::read_file(path)));
  return proto;
}

std::vector<float> floats_of(const std::string& bytes) {
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

std::vector<float> transposed_weight() {
  std::vector<float> out;
  for (int64_t c = 0; c < kWeightColumns; ++c)
    for (int64_t r = 0; r < kWeightRows; ++r) out.push_back(static_cast<float>(1 + r * kWeightColumns + c));
  return out;
}

std::string external_entry(const pb::TensorProto& tensor, const std::string& key) {
  for (const auto& some : tensor.external_data())
    if (some.key() == key) return some.value();
  return {};
}

class OnnxWriter : public testing::Test {
 protected:
  OnnxWriteResult write(const onnx::Model& model, const std::string& name, const OnnxWriteOptions& options = {}) {
    return write_onnx(model, folder_ / name, budget_, options);
  }
  onnx::Model read(const std::string& name) { return stream::read_onnx(folder_ / name, budget_); }

  stream::ScratchFolder folder_;
  stream::Budget budget_{64 << 20};
};

TEST_F(OnnxWriter, WritesWeightsInline) {
  const OnnxWriteResult result = write(onnx_network(), "m.onnx");
  EXPECT_EQ(result.file_bytes, fs::file_size(folder_ / "m.onnx"));
  EXPECT_EQ(folder_.entries(), 1u);
  const pb::ModelProto proto = parsed_onnx(folder_ / "m.onnx");
  EXPECT_EQ(proto.ir_version(), 8);
  EXPECT_EQ(proto.opset_import(0).version(), 17);
  EXPECT_EQ(proto.metadata_props(0).value(), "value");
  const pb::GraphProto& graph = proto.graph();
  ASSERT_EQ(graph.initializer_size(), 2);
  EXPECT_EQ(floats_of(graph.initializer(0).raw_data()), transposed_weight());
  EXPECT_THAT(floats_of(graph.initializer(1).raw_data()), ElementsAre(0.5F));
  EXPECT_EQ(graph.node(1).op_type(), "Add");
  EXPECT_EQ(graph.input(0).type().tensor_type().shape().dim(0).dim_param(), "n");
  EXPECT_EQ(graph.output(0).type().tensor_type().shape().dim(1).dim_value(), kWeightRows);
  const auto& unknown = graph.value_info(0).type().tensor_type().shape().dim(0);
  EXPECT_FALSE(unknown.has_dim_param() || unknown.has_dim_value());
}

TEST_F(OnnxWriter, WritesTheSameBytesThatProtobufWrites) {
  write(onnx_network(), "m.onnx");
  const std::string bytes = stream::read_file(folder_ / "m.onnx");
  EXPECT_EQ(parsed_onnx(folder_ / "m.onnx").ByteSizeLong(), bytes.size());
}

TEST_F(OnnxWriter, PutsLargeInitializersBeside) {
  onnx::Model model = onnx_network();
  model.graph.initializers.push_back(model.graph.initializers[0]);
  model.graph.initializers.back().name = "tied";
  const auto other = counted(512, 9);
  model.graph.initializers.push_back({"v", DType::kFloat32, {512}, recipe::floats(other, {512}), {}});
  const OnnxWriteResult result = write(model, "m.onnx", {.weights = Weights::kExternal});
  EXPECT_EQ(result.data_name, "m.onnx.data");
  const std::string data = stream::read_file(folder_ / "m.onnx.data");
  EXPECT_EQ(result.data_bytes, data.size());
  const pb::GraphProto graph = parsed_onnx(folder_ / "m.onnx").graph();
  EXPECT_EQ(graph.initializer(0).data_location(), pb::TensorProto::EXTERNAL);
  EXPECT_EQ(external_entry(graph.initializer(0), "offset"), "0");
  EXPECT_EQ(external_entry(graph.initializer(2), "offset"), "0");
  EXPECT_EQ(floats_of(graph.initializer(1).raw_data()).size(), 1u);
  const uint64_t offset = std::stoull(external_entry(graph.initializer(3), "offset"));
  EXPECT_EQ(offset % kOnnxDataAlignment, 0u);
  EXPECT_EQ(floats_of(data.substr(0, kWeightRows * kWeightColumns * 4)), transposed_weight());
  EXPECT_EQ(floats_of(data.substr(offset, 2048)), other);
  EXPECT_EQ(read("m.onnx").graph.initializers[3].data->bytes(), 2048u);
}

TEST_F(OnnxWriter, PutsThemBesideWhenTheModelPassesTheLimit) {
  EXPECT_EQ(write(onnx_network(), "a.onnx", {.inline_limit = 10'000}).data_name, "");
  EXPECT_EQ(write(onnx_network(), "b.onnx", {.inline_limit = 8000}).data_name, "b.onnx.data");
  stream::expect_error(Code::kUnsupported, "without its large initializers",
                       [&] { write(onnx_network(), "c.onnx", {.inline_limit = 100}); });
  EXPECT_FALSE(fs::exists(folder_ / "c.onnx"));
  EXPECT_FALSE(fs::exists(folder_ / "c.onnx.data"));
}

TEST_F(OnnxWriter, NamesDataInPlace) {
  write(onnx_network(), "whole.onnx");
  const onnx::Model model = read("whole.onnx");
  const OnnxWriteResult result = write(model, "part.onnx", {.weights = Weights::kInPlace});
  EXPECT_EQ(result.data_name, "");
  ASSERT_EQ(result.files.size(), 1u);
  EXPECT_EQ(result.files[0].name, "whole.onnx");
  const pb::GraphProto graph = parsed_onnx(folder_ / "part.onnx").graph();
  EXPECT_EQ(external_entry(graph.initializer(0), "location"), "whole.onnx");
  const std::string whole = stream::read_file(folder_ / "whole.onnx");
  const uint64_t offset = std::stoull(external_entry(graph.initializer(0), "offset"));
  EXPECT_EQ(floats_of(whole.substr(offset, kWeightRows * kWeightColumns * 4)), transposed_weight());
  fs::create_directory(folder_ / "sub");
  stream::expect_error(Code::kUsage, "the output must be in the folder",
                       [&] { write(model, "sub/part.onnx", {.weights = Weights::kInPlace}); });
  for (const Weights weights : {Weights::kInPlace, Weights::kAutomatic})
    stream::expect_error(Code::kUsage, "would be replaced, and the model reads from it",
                         [&] { write(model, "whole.onnx", {.weights = weights}); });
  EXPECT_EQ(stream::read_file(folder_ / "whole.onnx"), whole);
}

TEST_F(OnnxWriter, DoesNotReplaceDataThatTheModelReads) {
  write(onnx_network(), "m.onnx", {.weights = Weights::kExternal});
  const onnx::Model model = read("m.onnx");
  stream::expect_error(Code::kUsage, "the model reads from it",
                       [&] { write(model, "m.onnx", {.weights = Weights::kExternal}); });
}

// Else the data of one could stand beside the model of the other.
TEST_F(OnnxWriter, TwoDoNotWriteOneModelWithDataBesideAtOnce) {
  {
    const stream::OutFile other(folder_ / "m.onnx", 1);
    stream::expect_error(Code::kIo, "another run is writing this output",
                         [&] { write(onnx_network(), "m.onnx", {.weights = Weights::kExternal}); });
    EXPECT_FALSE(fs::exists(folder_ / "m.onnx.data"));
    write(onnx_network(), "n.onnx", {.weights = Weights::kExternal});
  }
  write(onnx_network(), "m.onnx", {.weights = Weights::kExternal});
}

// Every kind of attribute, a graph in an attribute, strings, packed integers, and a function.
onnx::Model every_attribute() {
  using Type = Attribute::Type;
  onnx::Model model = onnx_network();
  model.opsets["own"] = 1;
  onnx::Node some = onnx_node("Odd", {"x", "", "b"}, {"o", "", "p"});
  some.domain = "own";
  some.overload = "second";
  auto add = [&](const std::string& name, Type type) -> Attribute& {
    return some.attributes.emplace_back(attribute(name, type));
  };
  add("f", Type::kFloat).f = -1.5F;
  add("i", Type::kInt).i = -3;
  add("zero", Type::kInt).i = 0;
  add("s", Type::kString).s = std::string("a\0b", 3);
  add("fs", Type::kFloats).floats = {1, -2};
  add("is", Type::kInts).ints = {-1, 1LL << 40};
  add("empty", Type::kInts);
  add("ss", Type::kStrings).strings = {"", "z"};
  onnx::Tensor packed{"q", DType::kInt4, {3}, recipe::ints(std::vector<int64_t>{-8, 7, 1}, DType::kInt4, {3}), {}};
  add("t", Type::kTensor).tensors = {packed};
  add("ts", Type::kTensors).tensors = {packed, {"strings", DType::kString, {2}, nullptr, {"one", ""}}};
  auto graph = std::make_shared<onnx::Graph>(onnx_network().graph);
  add("g", Type::kGraph).graphs = {graph};
  add("gs", Type::kGraphs).graphs = {graph, graph};
  onnx::SparseTensor sparse;
  sparse.dims = {4};
  sparse.values = {"sv", DType::kFloat32, {1}, recipe::floats(counted(1, 2), {1}), {}};
  sparse.indices = {"", DType::kInt64, {1}, recipe::ints(std::vector<int64_t>{3}, DType::kInt64, {1}), {}};
  add("sp", Type::kSparseTensor).sparse = {sparse};
  add("tp", Type::kTypeProto).types = {tensor_info("", {{3, ""}})};
  model.graph.nodes.push_back(some);
  model.graph.sparse_initializers.push_back(sparse);
  onnx::Function function;
  function.name = "Twice";
  function.domain = "own";
  function.inputs = {"a"};
  function.outputs = {"r"};
  function.attributes = {"k"};
  function.opsets[""] = 17;
  function.nodes.push_back(onnx_node("Cast", {"a"}, {"r"}));
  Attribute& reference = function.nodes.back().attributes.emplace_back(attribute("to", Type::kInt));
  reference.reference = "k";
  model.functions.push_back(function);
  return model;
}

TEST_F(OnnxWriter, EveryAttributeIsReadBack) {
  write(every_attribute(), "m.onnx");
  const onnx::Model model = read("m.onnx");
  const onnx::Node& odd = model.graph.nodes.back();
  EXPECT_THAT(odd.inputs, ElementsAre("x", "", "b"));
  EXPECT_THAT(odd.outputs, ElementsAre("o", "", "p"));
  EXPECT_EQ(odd.domain, "own");
  EXPECT_EQ(odd.overload, "second");
  EXPECT_EQ(odd.find("f")->f, -1.5F);
  EXPECT_EQ(odd.find("i")->i, -3);
  EXPECT_EQ(odd.find("zero")->type, Attribute::Type::kInt);
  EXPECT_EQ(odd.find("s")->s.size(), 3u);
  EXPECT_THAT(odd.find("fs")->floats, ElementsAre(1, -2));
  EXPECT_THAT(odd.find("is")->ints, ElementsAre(-1, 1LL << 40));
  EXPECT_TRUE(odd.find("empty")->ints.empty());
  EXPECT_THAT(odd.find("ss")->strings, ElementsAre("", "z"));
  EXPECT_THAT(stream::evaluate_ints(odd.find("t")->tensors[0].data, budget_), ElementsAre(-8, 7, 1));
  EXPECT_THAT(odd.find("ts")->tensors[1].strings, ElementsAre("one", ""));
  EXPECT_EQ(odd.find("g")->graphs[0]->nodes.size(), 2u);
  EXPECT_EQ(odd.find("gs")->graphs.size(), 2u);
  EXPECT_EQ(odd.find("sp")->sparse[0].dims[0], 4);
  EXPECT_EQ(odd.find("tp")->types[0].dims[0].value, 3);
  ASSERT_EQ(model.functions.size(), 1u);
  EXPECT_EQ(model.functions[0].nodes[0].attributes[0].reference, "k");
  EXPECT_EQ(model.graph.sparse_initializers[0].values.name, "sv");
}

// What was read is copied, with fields that plain data lacks.
TEST_F(OnnxWriter, CopiesWhatItReadsAsItStands) {
  write(every_attribute(), "a.onnx");
  pb::ModelProto proto = parsed_onnx(folder_ / "a.onnx");
  proto.mutable_graph()->mutable_node(0)->set_doc_string(std::string(5000, 'd'));
  proto.mutable_graph()->mutable_node(1)->set_doc_string("short");
  auto* map = proto.mutable_graph()->mutable_value_info(0)->mutable_type()->mutable_map_type();
  map->set_key_type(pb::TensorProto::INT64);
  proto.mutable_functions(0)->set_doc_string("kept");
  stream::write_file(folder_ / "b.onnx", proto.SerializeAsString());
  write(read("b.onnx"), "c.onnx");
  const pb::ModelProto copy = parsed_onnx(folder_ / "c.onnx");
  EXPECT_EQ(copy.graph().node(0).doc_string().size(), 5000u);
  EXPECT_EQ(copy.graph().node(1).doc_string(), "short");
  EXPECT_EQ(copy.graph().value_info(0).type().map_type().key_type(), pb::TensorProto::INT64);
  EXPECT_EQ(copy.functions(0).doc_string(), "kept");
  EXPECT_EQ(copy.graph().node(2).SerializeAsString(), proto.graph().node(2).SerializeAsString());
}

// Elements behind text are not aligned in the file.
TEST_F(OnnxWriter, WritesComputedWeightsAtAnyOffset) {
  for (int pad = 0; pad < 8; ++pad) {
    onnx::Model model = onnx_network();
    model.producer_name = std::string(static_cast<size_t>(pad) + 1, 'p');
    write(model, "m.onnx");
    EXPECT_EQ(floats_of(parsed_onnx(folder_ / "m.onnx").graph().initializer(0).raw_data()), transposed_weight()) << pad;
  }
}

TEST_F(OnnxWriter, LargeWeightsNeedTheLeastBudget) {
  onnx::Model model = onnx_network();
  constexpr int64_t kLarge = 1111, kLong = 2003;
  auto stored = recipe::floats(counted(kLarge * kLong, 0), {kLarge, kLong});
  model.graph.initializers.push_back({"l", DType::kFloat32, {kLong, kLarge}, recipe::permute(stored, {1, 0}), {}});
  for (const Weights weights : {Weights::kAutomatic, Weights::kExternal}) {
    const OnnxPlan plan = plan_onnx(model, folder_ / "m.onnx", {.weights = weights});
    stream::Budget least(least_budget(plan));
    write_onnx(plan, model, folder_ / "m.onnx", least, {.weights = weights});
    const onnx::Model back = read("m.onnx");
    const auto column = recipe::slice(back.graph.initializers[2].data, {5, 0}, {1, kLarge}, {1, 1});
    const auto values = stream::evaluate_doubles(column, budget_);
    for (int64_t i = 0; i < kLarge; ++i) ASSERT_EQ(values[static_cast<size_t>(i)], i * kLong + 5);
  }
}

TEST_F(OnnxWriter, AnErrorLeavesNoFile) {
  onnx::Model model = onnx_network();
  model.graph.value_info.push_back({.name = "odd", .type = ValueInfo::Type::kMap});
  stream::expect_error(Code::kUnsupported, "value 'odd'", [&] { write(model, "m.onnx"); });
  EXPECT_EQ(folder_.entries(), 0u);
}

}  // namespace
}  // namespace lowtide::emit
