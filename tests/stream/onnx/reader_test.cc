// SPDX-License-Identifier: Apache-2.0
// Models, graphs, nodes, attributes, functions and types; cut files; files over 2 GiB. Made by protobuf's generated
// classes, which are the judge of the wire format.
#include "stream/onnx/reader.h"

#include <fcntl.h>

#include <cstring>
#include <functional>

#include "schemas/onnx.pb.h"
#include "tests/stream/scratch.h"

namespace lowtide::stream {
namespace {

namespace pb = ::onnx;
using Type = onnx::Attribute::Type;
using pb::AttributeProto;

constexpr uint64_t kBudget = 1 << 20;

pb::ModelProto minimal() {
  pb::ModelProto model;
  model.set_ir_version(10);
  model.add_opset_import()->set_version(21);
  model.mutable_graph()->set_name("g");
  return model;
}

onnx::Model read_bytes(const std::string& bytes) {
  Budget budget(kBudget);
  onnx::Model model = read_onnx(memory_source(to_bytes(bytes), "net.onnx"), {}, budget);
  EXPECT_EQ(budget.available(), budget.limit());
  return model;
}
onnx::Model read(const pb::ModelProto& model) { return read_bytes(model.SerializeAsString()); }

AttributeProto* add_attribute(pb::NodeProto* node, const std::string& name, AttributeProto::AttributeType type) {
  AttributeProto* attribute = node->add_attribute();
  attribute->set_name(name);
  attribute->set_type(type);
  return attribute;
}

void set_tensor(pb::TensorProto* tensor, const std::string& name, const std::string& raw) {
  tensor->set_name(name);
  tensor->set_data_type(pb::TensorProto::UINT8);
  tensor->add_dims(static_cast<int64_t>(raw.size()));
  tensor->set_raw_data(raw);
}

TEST(OnnxReader, ModelFields) {
  pb::ModelProto m = minimal();
  m.set_producer_name("maker");
  m.set_producer_version("1.2");
  m.set_domain("org.example");
  m.set_model_version(7);
  m.set_doc_string("what it is");
  auto* opset = m.add_opset_import();
  opset->set_domain("com.microsoft");
  opset->set_version(1);
  for (const char* key : {"author", "licence"}) {
    auto* entry = m.add_metadata_props();
    entry->set_key(key);
    entry->set_value(std::string(key) + "!");
  }
  onnx::Model got = read(m);
  EXPECT_EQ(got.path, "net.onnx");
  EXPECT_EQ(got.ir_version, 10);
  EXPECT_EQ(got.producer_name, "maker");
  EXPECT_EQ(got.producer_version, "1.2");
  EXPECT_EQ(got.domain, "org.example");
  EXPECT_EQ(got.model_version, 7);
  EXPECT_EQ(got.doc_string, "what it is");
  EXPECT_EQ(got.opsets, (std::map<std::string, int64_t>{{"", 21}, {"com.microsoft", 1}}));
  EXPECT_EQ(got.metadata, (std::map<std::string, std::string>{{"author", "author!"}, {"licence", "licence!"}}));
  EXPECT_EQ(got.graph.name, "g");
  EXPECT_EQ(got.file_bytes, m.ByteSizeLong());
  EXPECT_EQ(got.external_bytes, 0u);
  ASSERT_EQ(got.sources.size(), 1u);
}

TEST(OnnxReader, NodesAndEveryKindOfAttribute) {
  pb::ModelProto m = minimal();
  pb::NodeProto* n = m.mutable_graph()->add_node();
  n->set_name("conv_17");
  n->set_op_type("Conv");
  n->set_domain("ai.onnx");
  n->set_overload("v2");
  for (const char* name : {"x", "", "w"}) n->add_input(name);
  for (const char* name : {"y", "z"}) n->add_output(name);
  add_attribute(n, "f", AttributeProto::FLOAT)->set_f(2.5F);
  add_attribute(n, "i", AttributeProto::INT)->set_i(-3);
  add_attribute(n, "s", AttributeProto::STRING)->set_s("SAME_UPPER");
  set_tensor(add_attribute(n, "t", AttributeProto::TENSOR)->mutable_t(), "inside", "abc");
  pb::GraphProto* body = add_attribute(n, "g", AttributeProto::GRAPH)->mutable_g();
  body->set_name("body");
  body->add_node()->set_op_type("Add");
  AttributeProto* floats = add_attribute(n, "floats", AttributeProto::FLOATS);
  for (float v : {1.0F, 2.0F}) floats->add_floats(v);
  AttributeProto* ints = add_attribute(n, "ints", AttributeProto::INTS);
  for (int v : {3, -4, 5}) ints->add_ints(v);
  AttributeProto* strings = add_attribute(n, "strings", AttributeProto::STRINGS);
  for (const char* v : {"a", "", "c"}) strings->add_strings(v);
  AttributeProto* tensors = add_attribute(n, "tensors", AttributeProto::TENSORS);
  for (const char* v : {"1", "22"}) set_tensor(tensors->add_tensors(), v, v);
  AttributeProto* graphs = add_attribute(n, "graphs", AttributeProto::GRAPHS);
  for (const char* v : {"one", "two"}) graphs->add_graphs()->set_name(v);
  auto sparse = [](pb::SparseTensorProto* out) {
    set_tensor(out->mutable_values(), "v", "ab");
    out->mutable_indices()->set_data_type(pb::TensorProto::INT64);
    out->mutable_indices()->add_dims(2);
    for (int v : {1, 4}) out->mutable_indices()->add_int64_data(v);
    out->add_dims(9);
  };
  sparse(add_attribute(n, "sparse", AttributeProto::SPARSE_TENSOR)->mutable_sparse_tensor());
  sparse(add_attribute(n, "sparses", AttributeProto::SPARSE_TENSORS)->add_sparse_tensors());
  add_attribute(n, "tp", AttributeProto::TYPE_PROTO)->mutable_tp()->mutable_tensor_type()->set_elem_type(1);
  add_attribute(n, "tps", AttributeProto::TYPE_PROTOS)->add_type_protos()->mutable_sequence_type();

  onnx::Model got = read(m);
  const onnx::Node& node = got.graph.nodes.at(0);
  EXPECT_EQ(node.label(), "conv_17");
  EXPECT_EQ(node.op_type, "Conv");
  EXPECT_EQ(node.domain, "");
  EXPECT_EQ(node.overload, "v2");
  EXPECT_EQ(node.inputs, (std::vector<std::string>{"x", "", "w"}));
  EXPECT_EQ(node.outputs, (std::vector<std::string>{"y", "z"}));
  EXPECT_EQ(node.find("none"), nullptr);
  EXPECT_EQ(node.find("f")->f, 2.5F);
  EXPECT_EQ(node.find("i")->i, -3);
  EXPECT_EQ(node.find("s")->s, "SAME_UPPER");
  EXPECT_EQ(node.find("t")->tensors.at(0).name, "inside");
  EXPECT_EQ(node.find("g")->graphs.at(0)->nodes.at(0).op_type, "Add");
  EXPECT_EQ(node.find("floats")->floats, (std::vector<float>{1, 2}));
  EXPECT_EQ(node.find("ints")->ints, (std::vector<int64_t>{3, -4, 5}));
  EXPECT_EQ(node.find("strings")->strings, (std::vector<std::string>{"a", "", "c"}));
  EXPECT_EQ(node.find("tensors")->tensors.at(1).dims, (Shape{2}));
  EXPECT_EQ(node.find("graphs")->graphs.at(1)->name, "two");
  EXPECT_EQ(node.find("sparse")->sparse.at(0).dims, (Shape{9}));
  EXPECT_EQ(node.find("sparses")->sparse.at(0).values.dims, (Shape{2}));
  EXPECT_EQ(node.find("tp")->types.at(0).dtype, DType::kFloat32);
  EXPECT_EQ(node.find("tps")->types.at(0).type, onnx::ValueInfo::Type::kSequence);
  for (size_t i = 0; i < node.attributes.size(); ++i) EXPECT_EQ(static_cast<size_t>(node.attributes[i].type), i + 1);
  std::string bytes = m.SerializeAsString();
  EXPECT_EQ(bytes.substr(node.offset, 3), std::string("\x0a\x01x"));  // the node's first field: input "x"
}

TEST(OnnxReader, AttributesOfOldFilesHaveNoType) {
  pb::ModelProto m = minimal();
  pb::NodeProto* n = m.mutable_graph()->add_node();
  n->set_op_type("Op");
  n->add_output("");
  n->add_output("out");
  AttributeProto* a = n->add_attribute();
  a->set_name("axes");
  for (int v : {1, 2}) a->add_ints(v);
  add_attribute(n, "zero", AttributeProto::INT);  // proto3 leaves a zero out
  onnx::Model got = read(m);
  EXPECT_EQ(got.graph.nodes.at(0).find("axes")->type, Type::kInts);
  EXPECT_EQ(got.graph.nodes.at(0).find("zero")->i, 0);
  EXPECT_EQ(got.graph.nodes.at(0).label(), "out");
}

TEST(OnnxReader, ContradictionsInAttributesAreErrors) {
  auto refused = [](const std::string& part, const std::function<void(pb::NodeProto*)>& change) {
    pb::ModelProto m = minimal();
    pb::NodeProto* n = m.mutable_graph()->add_node();
    n->set_op_type("Pad");
    n->set_name("pad_3");
    change(n);
    expect_error(Code::kMalformed, part, [&] { read(m); });
  };
  refused("node 'pad_3' (Pad), attribute 'mode', byte ",
          [](auto* n) { add_attribute(n, "mode", AttributeProto::TENSOR); });
  refused("attribute 'mode' is given twice", [](auto* n) {
    for (int i : {1, 2}) add_attribute(n, "mode", AttributeProto::INT)->set_i(i);
  });
  refused("has type 2, but a value of type 1", [](auto* n) { add_attribute(n, "a", AttributeProto::INT)->set_f(1); });
  refused("values of several types", [](auto* n) {
    AttributeProto* a = add_attribute(n, "a", AttributeProto::INT);
    a->set_f(1);
    a->set_i(1);
  });
  refused("neither a type nor a value", [](auto* n) { n->add_attribute()->set_name("a"); });
  refused("the attribute has no name", [](auto* n) { n->add_attribute()->set_i(1); });
  refused("outside of a function", [](auto* n) { add_attribute(n, "a", AttributeProto::INT)->set_ref_attr_name("b"); });
  refused("the node has no operator", [](auto* n) { n->clear_op_type(); });
}

TEST(OnnxReader, TypesOfValues) {
  pb::ModelProto m = minimal();
  pb::GraphProto* g = m.mutable_graph();
  auto add = [&](const char* name) {
    pb::ValueInfoProto* value = g->add_input();
    value->set_name(name);
    return value->mutable_type();
  };
  pb::TypeProto* x = add("x");
  x->mutable_tensor_type()->set_elem_type(pb::TensorProto::INT64);
  pb::TensorShapeProto* shape = x->mutable_tensor_type()->mutable_shape();
  shape->add_dim()->set_dim_param("batch");
  shape->add_dim()->set_dim_value(3);
  shape->add_dim();
  shape->add_dim()->set_dim_value(-1);
  add("scalar")->mutable_tensor_type()->mutable_shape();
  add("sequence")->mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type()->set_elem_type(1);
  add("map")->mutable_map_type()->mutable_value_type()->mutable_tensor_type()->set_elem_type(7);
  add("optional")->mutable_optional_type()->mutable_elem_type()->mutable_sequence_type();
  add("sparse")->mutable_sparse_tensor_type()->set_elem_type(11);
  add("opaque")->mutable_opaque_type();
  g->add_input()->set_name("untyped");
  g->add_output()->set_name("y");
  g->add_value_info()->set_name("v");

  onnx::Model got = read(m);
  using Kind = onnx::ValueInfo::Type;
  const auto& in = got.graph.inputs;
  ASSERT_EQ(in.size(), 8u);
  const Kind kinds[] = {Kind::kTensor,   Kind::kTensor,       Kind::kSequence, Kind::kMap,
                        Kind::kOptional, Kind::kSparseTensor, Kind::kOpaque,   Kind::kNone};
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(in[i].type, kinds[i]) << in[i].name;
  ASSERT_EQ(in[0].dims.size(), 4u);
  EXPECT_EQ(in[0].dims[0].symbol, "batch");
  EXPECT_EQ(in[0].dims[0].value, -1);
  EXPECT_EQ(in[0].dims[1].value, 3);
  EXPECT_EQ(in[0].dims[2].value, -1);
  EXPECT_EQ(in[0].dims[3].value, -1);
  EXPECT_EQ(in[0].dtype, DType::kInt64);
  EXPECT_TRUE(in[1].has_shape);
  EXPECT_FALSE(in[2].has_shape);
  EXPECT_EQ(in[2].dtype, DType::kFloat32);
  EXPECT_EQ(in[3].dtype, DType::kInt64);
  EXPECT_EQ(in[5].dtype, DType::kFloat64);
  EXPECT_EQ(got.graph.outputs.at(0).name, "y");
  EXPECT_EQ(got.graph.value_info.at(0).name, "v");
}

TEST(OnnxReader, Functions) {
  pb::ModelProto m = minimal();
  pb::FunctionProto* f = m.add_functions();
  f->set_name("Twice");
  f->set_domain("local");
  f->set_overload("o");
  f->add_input("x");
  f->add_output("y");
  f->add_attribute("needed");
  auto* fallback = f->add_attribute_proto();
  fallback->set_name("given");
  fallback->set_i(4);
  pb::NodeProto* n = f->add_node();
  n->set_op_type("Elu");
  add_attribute(n, "alpha", AttributeProto::FLOAT)->set_ref_attr_name("needed");
  f->add_opset_import()->set_version(18);
  onnx::Model got = read(m);
  const onnx::Function& function = got.functions.at(0);
  EXPECT_EQ(function.name, "Twice");
  EXPECT_EQ(function.domain, "local");
  EXPECT_EQ(function.overload, "o");
  EXPECT_EQ(function.inputs, std::vector<std::string>{"x"});
  EXPECT_EQ(function.outputs, std::vector<std::string>{"y"});
  EXPECT_EQ(function.attributes, std::vector<std::string>{"needed"});
  EXPECT_EQ(function.attribute_defaults.at(0).i, 4);
  EXPECT_EQ(function.nodes.at(0).find("alpha")->reference, "needed");
  EXPECT_EQ(function.opsets.at(""), 18);
  *m.add_functions() = *f;
  expect_error(Code::kMalformed, "two functions are named 'local.Twice'", [&] { read(m); });
}

TEST(OnnxReader, ModelsThatContradictThemselvesAreErrors) {
  auto refused = [](const std::string& part, const std::function<void(pb::ModelProto*)>& change,
                    Code code = Code::kMalformed) {
    pb::ModelProto m = minimal();
    change(&m);
    expect_error(code, part, [&] { read(m); });
  };
  refused("no ir_version", [](auto* m) { m->clear_ir_version(); });
  refused("no graph", [](auto* m) { m->clear_graph(); });
  refused("no opset_import", [](auto* m) { m->clear_opset_import(); });
  refused("has the invalid version -1", [](auto* m) { m->mutable_opset_import(0)->set_version(-1); });
  refused("two initializers are named 'w'", [](auto* m) {
    for (int i = 0; i < 2; ++i) set_tensor(m->mutable_graph()->add_initializer(), "w", "abc");
  });
  refused("two graph inputs are named 'x'", [](auto* m) {
    for (int i = 0; i < 2; ++i) m->mutable_graph()->add_input()->set_name("x");
  });
  refused("has no name", [](auto* m) { m->mutable_graph()->add_value_info(); });
  expect_error(Code::kMalformed, "not an ONNX model", [] { read_bytes(""); });
  expect_error(Code::kMalformed, "not a protobuf message", [] { read_bytes("PK\3\4 and so on"); });

  pb::ModelProto old = minimal();
  old.clear_opset_import();
  old.set_ir_version(2);
  EXPECT_EQ(read(old).opsets.at(""), 1);
}

TEST(OnnxReader, WhatIsReadInOneOfSeveralWaysIsNoted) {
  pb::ModelProto newer = minimal();
  newer.set_ir_version(99);
  onnx::Model got = read(newer);
  ASSERT_EQ(got.notes.size(), 1);
  EXPECT_NE(got.notes[0].find("ir_version 99 is newer than"), std::string::npos);

  pb::ModelProto twice = minimal();
  auto* opset = twice.add_opset_import();
  opset->set_domain("ai.onnx");
  opset->set_version(20);
  got = read(twice);
  EXPECT_EQ(got.opsets.at(""), 20);  // the last one
  ASSERT_EQ(got.notes.size(), 1);
  EXPECT_EQ(
      got.notes[0],
      "domain 'ai.onnx' is imported with opset 21 and again with opset 20: the last one counts, as in ONNX Runtime");
  opset->set_version(21);
  EXPECT_TRUE(read(twice).notes.empty());
}

TEST(OnnxReader, AGitLfsPointerIsNamed) {
  ScratchFolder folder;
  write_file(folder / "net.onnx", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1234\n");
  Budget budget(kBudget);
  expect_error(Code::kMalformed, "a Git LFS pointer", [&] { read_onnx(folder / "net.onnx", budget); });
}

TEST(OnnxReader, ATfliteModelIsNamed) {
  ScratchFolder folder;
  write_file(folder / "net.onnx", std::string("\x1c\0\0\0TFL3\0\0\0\0", 12));
  Budget budget(kBudget);
  expect_error(Code::kMalformed, "a TFLite model", [&] { read_onnx(folder / "net.onnx", budget); });
}

TEST(OnnxReader, AGraphFieldGivenTwiceIsMerged) {
  pb::ModelProto first = minimal(), second;
  first.mutable_graph()->add_node()->set_op_type("Abs");
  second.mutable_graph()->add_node()->set_op_type("Neg");
  onnx::Model got = read_bytes(first.SerializeAsString() + second.SerializeAsString());
  ASSERT_EQ(got.graph.nodes.size(), 2u);
  EXPECT_EQ(got.graph.nodes[1].op_type, "Neg");
}

TEST(OnnxReader, NestingHasALimit) {
  auto nested = [](int levels) {
    pb::ModelProto m = minimal();
    pb::GraphProto* g = m.mutable_graph();
    for (int i = 0; i < levels; ++i) {
      pb::NodeProto* n = g->add_node();
      n->set_op_type("If");
      g = add_attribute(n, "then_branch", AttributeProto::GRAPH)->mutable_g();
    }
    return m;
  };
  EXPECT_EQ(read(nested(20)).graph.nodes.size(), 1u);
  expect_error(Code::kMalformed, "nest deeper than", [&] { read(nested(40)); });
}

// Something of everything, and the opset import last, so that every cut leaves an invalid file.
std::string sample() {
  pb::ModelProto m;
  m.set_ir_version(8);
  pb::GraphProto* g = m.mutable_graph();
  set_tensor(g->add_initializer(), "raw", "abcdef");
  pb::TensorProto* t = g->add_initializer();
  t->set_name("typed");
  t->set_data_type(pb::TensorProto::INT64);
  t->add_dims(3);
  for (int v : {1, 300, -1}) t->add_int64_data(v);
  pb::NodeProto* n = g->add_node();
  n->set_op_type("Op");
  n->add_input("raw");
  AttributeProto* a = add_attribute(n, "ints", AttributeProto::INTS);
  for (int v : {3, 500}) a->add_ints(v);
  add_attribute(n, "f", AttributeProto::FLOAT)->set_f(1);
  add_attribute(n, "g", AttributeProto::GRAPH)->mutable_g()->add_node()->set_op_type("In");
  pb::ValueInfoProto* x = g->add_input();
  x->set_name("x");
  x->mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(3);
  auto* entry = m.add_metadata_props();
  entry->set_key("k");
  pb::ModelProto last;
  last.add_opset_import()->set_version(13);
  return m.SerializeAsString() + last.SerializeAsString();
}

TEST(OnnxReader, ACutAtAnyByteIsAnError) {
  const std::string bytes = sample();
  read_bytes(bytes);
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    auto error = error_of([&] { read_bytes(bytes.substr(0, cut)); });
    ASSERT_TRUE(error.has_value()) << cut;
    EXPECT_EQ(error->code(), Code::kMalformed) << cut << ": " << error->what();
    EXPECT_TRUE(std::string(error->what()).starts_with("net.onnx: ")) << error->what();
  }
}

TEST(OnnxReader, DamagedBytesNeverCrash) {
  const std::string bytes = sample();
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int value : {0x00, 0x01, 0x7f, 0x80, 0xff, bytes[at] ^ 1, bytes[at] ^ 0x40}) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(value);
      error_of([&] { read_bytes(damaged); });  // an Error or a model, nothing else
    }
  }
}

TEST(OnnxReader, ReadsOneProtobufOfMoreThanFourGigabytesInLittleMemory) {
  ScratchFolder folder;
  auto varint = [](uint64_t value) {
    std::string out;
    for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
    return out + static_cast<char>(value);
  };
  constexpr int64_t kRows = 1 << 20, kColumns = 5 << 10;  // 5 GiB of bytes
  constexpr uint64_t kBytes = static_cast<uint64_t>(kRows) * kColumns;
  pb::TensorProto tensor;
  tensor.set_name("huge");
  tensor.set_data_type(pb::TensorProto::UINT8);
  tensor.add_dims(kRows);
  tensor.add_dims(kColumns);
  std::string head = tensor.SerializeAsString() + "\x4a" + varint(kBytes);
  pb::GraphProto rest;
  set_tensor(rest.add_initializer(), "after", "abc");
  rest.add_node()->set_op_type("Op");
  const std::string tail = rest.SerializeAsString();
  std::string graph_head = "\x2a" + varint(head.size() + kBytes) + head;
  std::string file_head = minimal().SerializeAsString() + "\x3a" + varint(graph_head.size() + kBytes + tail.size());
  file_head += graph_head;
  const auto path = folder / "huge.onnx";
  write_file(path, file_head);
  std::filesystem::resize_file(path, file_head.size() + kBytes);
  std::ofstream(path, std::ios::binary | std::ios::app) << tail;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr uint64_t kGrowth = 32 << 20;  // shadow memory counts too, and the program's pages are more
#else
  constexpr uint64_t kGrowth = 4 << 20;
#endif
  const uint64_t before = process_status("VmRSS:");
  Budget budget(kBudget);
  onnx::Model got = read_onnx(path, budget);
  EXPECT_LT(process_status("VmRSS:"), before + kGrowth);
  EXPECT_EQ(got.file_bytes, file_head.size() + kBytes + tail.size());
  ASSERT_EQ(got.graph.initializers.size(), 2u);
  const step::Stored* huge = recipe::plain_stored(*got.graph.initializers[0].data);
  ASSERT_NE(huge, nullptr);
  EXPECT_EQ(huge->file_runs[0].bytes, kBytes);
  EXPECT_EQ(huge->file_runs[0].offset, file_head.size());
  const step::Stored* after = recipe::plain_stored(*got.graph.initializers[1].data);
  EXPECT_EQ(read_text(*after->source, after->file_runs[0].offset, 3), "abc");
  EXPECT_EQ(got.graph.nodes.at(0).op_type, "Op");
}

// A disk that fails from some byte on.
class FailingSource final : public Source {
 public:
  FailingSource(std::string bytes, uint64_t good) : bytes_(std::move(bytes)), good_(good) {}
  uint64_t size() const override { return bytes_.size(); }
  const std::string& name() const override { return name_; }
  void read_at(uint64_t offset, std::span<std::byte> out) const override {
    if (offset + out.size() > good_) throw Error(Code::kIo, "the disk fails", {.file = name_});
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
  }

 private:
  std::string bytes_, name_ = "net.onnx";
  uint64_t good_;
};

TEST(OnnxReader, AReadErrorAtAnyOffsetIsReported) {
  pb::ModelProto m = minimal();
  for (int i = 0; i < 3000; ++i) m.mutable_graph()->add_node()->set_op_type("Operator" + std::to_string(i));
  const std::string bytes = m.SerializeAsString();
  ASSERT_GT(bytes.size(), 40000u);
  for (uint64_t good = 0; good < bytes.size(); good += 1777) {
    Budget budget(kBudget);
    auto source = std::make_shared<FailingSource>(bytes, good);
    expect_error(Code::kIo, "net.onnx: the disk fails", [&] { read_onnx(source, {}, budget); });
    EXPECT_EQ(budget.available(), budget.limit());
  }
}

// Memory may grow with the number of nodes only.
TEST(OnnxReader, LargeTensorsAreNotLoaded) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's own memory grows";
#endif
  pb::ModelProto m = minimal();
  for (int i = 0; i < 40; ++i) {
    set_tensor(m.mutable_graph()->add_initializer(), "w" + std::to_string(i), std::string(1 << 20, 'w'));
  }
  ScratchFolder folder;
  write_file(folder / "net.onnx", m.SerializeAsString());
  m.Clear();
  const uint64_t before = process_status("VmRSS:");
  Budget budget(kBudget);
  onnx::Model got = read_onnx(folder / "net.onnx", budget);
  EXPECT_EQ(got.graph.initializers.size(), 40u);
  EXPECT_LT(process_status("VmRSS:"), before + (1 << 20));
  EXPECT_LE(budget.high_water(), 64u * 1024);
}

TEST(OnnxReader, ControlBytesInNamesAreEscaped) {
  pb::ModelProto m = minimal();
  pb::NodeProto* n = m.mutable_graph()->add_node();
  n->set_op_type("Op");
  n->set_name("a\xff\n\x1b[31m\xc2\x9b\xc3\xa9");
  add_attribute(n, "t", AttributeProto::TENSOR);
  expect_error(Code::kMalformed, "node 'a\\xff\\x0a\\x1b[31m\\xc2\\x9b\xc3\xa9' (Op)", [&] { read(m); });
}

}  // namespace
}  // namespace lowtide::stream
