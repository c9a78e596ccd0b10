// SPDX-License-Identifier: Apache-2.0
// External data is confined to the model's folder: every escape that is known from CVEs of other programs.
#include "stream/file/external_data.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "schemas/onnx.pb.h"
#include "stream/onnx/reader.h"
#include "tests/stream/scratch.h"

namespace lowtide::stream {
namespace {

namespace pb = ::onnx;
using Entries = std::vector<std::pair<std::string, std::string>>;

class ExternalData : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_ / "model/sub");
    write_file(folder_ / "model/weights.bin", "0123456789");
    write_file(folder_ / "model/sub/more.bin", "abcdef");
    write_file(folder_ / "outside.bin", "secret secret");
    std::filesystem::create_symlink("../outside.bin", folder_ / "model/link");
    std::filesystem::create_symlink("weights.bin", folder_ / "model/inner-link");
    std::filesystem::create_symlink("..", folder_ / "model/up");
    std::filesystem::create_symlink("sub", folder_ / "model/sub-link");
    std::filesystem::create_hard_link(folder_ / "outside.bin", folder_ / "model/hard");
    ASSERT_EQ(mkfifo((folder_ / "model/pipe").c_str(), 0600), 0);
  }

  void add(const std::string& name, int64_t bytes, const Entries& entries) {
    pb::TensorProto* tensor = model_.mutable_graph()->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(pb::TensorProto::UINT8);
    tensor->add_dims(bytes);
    tensor->set_data_location(pb::TensorProto::EXTERNAL);
    for (const auto& [key, value] : entries) {
      auto* entry = tensor->add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
  }

  onnx::Model read() {
    model_.set_ir_version(10);
    if (model_.opset_import_size() == 0) model_.add_opset_import()->set_version(21);
    write_file(folder_ / "model/net.onnx", model_.SerializeAsString());
    return read_onnx(folder_ / "model/net.onnx", budget_);
  }

  void expect_refused(Code code, const std::string& part, const Entries& entries) {
    model_.Clear();
    add("w", 4, entries);
    expect_error(code, part, [&] { read(); });
  }

  static std::string text(const onnx::Tensor& tensor) {
    const step::Stored* stored = recipe::plain_stored(*tensor.data);
    return read_text(*stored->source, stored->file_runs[0].offset, stored->file_runs[0].bytes);
  }

  ScratchFolder folder_;
  pb::ModelProto model_;
  Budget budget_{4 << 20};
};

TEST_F(ExternalData, IsReadBesideTheModel) {
  add("a", 4, {{"location", "weights.bin"}, {"offset", "2"}, {"length", "4"}, {"checksum", "da39a3"}});
  add("b", 3, {{"location", "./sub//more.bin"}, {"length", "0"}});  // as none
  add("c", 10, {{"location", "weights.bin"}});
  add("empty", 0, {{"location", "weights.bin"}, {"length", "0"}});
  onnx::Model got = read();
  EXPECT_EQ(text(got.graph.initializers[0]), "2345");
  EXPECT_EQ(text(got.graph.initializers[1]), "abc");
  EXPECT_EQ(text(got.graph.initializers[2]), "0123456789");
  EXPECT_EQ(got.graph.initializers[3].data->elements(), 0u);
  EXPECT_EQ(got.external_bytes, 17u);
  EXPECT_EQ(got.sources.size(), 3u);
  for (const auto& source : got.sources) source->check_unchanged();
}

TEST_F(ExternalData, PathsOutsideTheFolderAreRefused) {
  const std::string absolute = (folder_ / "outside.bin").string();
  auto escape = [&](const std::string& location, const std::string& part) {
    expect_refused(Code::kUnsafePath, part, {{"location", location}});
  };
  escape("../outside.bin", "leads out of the model's folder");
  escape("sub/../../outside.bin", "leads out of the model's folder");
  escape("sub/../weights.bin", "leads out of the model's folder");
  escape("..", "leads out of the model's folder");
  escape(absolute, "an absolute path");
  escape("link", "a symbolic link");
  escape("inner-link", "a symbolic link");
  escape("up/outside.bin", "a symbolic link");
  escape("sub-link/more.bin", "a symbolic link");
  escape("hard", "a hard link");
  escape("pipe", "not a regular file");
  escape("sub", "not a regular file");
  escape("sub/", "a folder");
  escape(".", "a folder");
  escape("sub/.", "a folder");
  escape("", "no location");
  escape(std::string("weights.bin\0.x", 14), "a NUL");
  expect_refused(Code::kUnsafePath, "no location", {{"length", "4"}});
}

TEST_F(ExternalData, LinksAreFollowedInsideOneFolder) {
  namespace fs = std::filesystem;
  const fs::path cache = folder_ / "cache";
  fs::create_directories(cache / "blobs");
  fs::create_directories(cache / "snapshots/1");
  std::ofstream(cache / "blobs/a") << "data";
  std::ofstream(folder_ / "secret") << "data";
  auto link = [&](const char* target, const char* name) { fs::create_symlink(target, cache / "snapshots/1" / name); };
  link("../../blobs/a", "good");
  link("good", "twice");
  link("../../blobs", "folder");
  link("../../../secret", "out");
  link("../../blobs/../../cache/blobs/a", "out-and-in");
  link((cache / "blobs/a").c_str(), "absolute");
  link("round", "round");
  link("../../blobs/none", "dangling");
  link("good/", "slash");
  const int root = open(cache.c_str(), O_PATH | O_DIRECTORY);
  Descriptor held(root);
  for (Resolver resolver : {Resolver::kKernel, Resolver::kWalk}) {
    auto within = [&](const char* location) { return open_within(root, "snapshots/1", location, resolver); };
    for (const char* name : {"good", "twice", "folder/a"}) EXPECT_GE(within(name)->number(), 0) << name;
    for (const char* name : {"out", "out-and-in", "absolute"})
      expect_error(Code::kUnsafePath, "leads out of the folder", [&] { within(name); });
    expect_error(Code::kUnsafePath, "too many symbolic links", [&] { within("round"); });
    expect_error(Code::kUnsafePath, "not a regular file", [&] { within("folder"); });
    expect_error(Code::kUnsafePath, "leads out of the model's folder", [&] { within("../../blobs/a"); });
    expect_error(Code::kNotFound, "", [&] { within("dangling"); });
    expect_error(Code::kNotFound, "", [&] { within("good/x"); });
    expect_error(Code::kNotFound, "", [&] { within("slash"); });
  }
}

TEST_F(ExternalData, TheFallbackWithoutOpenat2RefusesTheSamePaths) {
  int root = open((folder_ / "model").c_str(), O_PATH | O_DIRECTORY);
  Descriptor held(root);
  for (Resolver resolver : {Resolver::kKernel, Resolver::kWalk}) {
    EXPECT_GE(open_below(root, "weights.bin", resolver)->number(), 0);
    EXPECT_GE(open_below(root, "sub/more.bin", resolver)->number(), 0);
    for (const char* name : {"link", "inner-link", "up/outside.bin", "sub-link/more.bin"}) {
      expect_error(Code::kUnsafePath, "a symbolic link", [&] { open_below(root, name, resolver); });
    }
    expect_error(Code::kUnsafePath, "regular file", [&] { open_below(root, "pipe", resolver); });
    expect_error(Code::kUnsafePath, "regular file", [&] { open_below(root, "sub", resolver); });
    expect_error(Code::kUnsafePath, "a hard link", [&] { open_below(root, "hard", resolver); });
    expect_error(Code::kNotFound, "missing", [&] { open_below(root, "missing", resolver); });
    expect_error(Code::kNotFound, "", [&] { open_below(root, "weights.bin/x", resolver); });
    expect_error(Code::kNotFound, "", [&] { open_below(root, std::string(300, 'x'), resolver); });
  }
}

TEST_F(ExternalData, RangesOutsideTheFileAreRefused) {
  auto wrong = [&](const std::string& part, Entries entries) {
    entries.emplace_back("location", "weights.bin");
    expect_refused(Code::kMalformed, part, entries);
  };
  wrong("needs 4 bytes, but its external data has 3", {{"length", "3"}});
  wrong("4 bytes at offset 7 are outside", {{"offset", "7"}});
  wrong("are outside", {{"offset", "18446744073709551615"}});
  wrong("'offset' must be a number of bytes; it is '-1'", {{"offset", "-1"}});
  wrong("'offset' must be a number of bytes; it is '18446744073709551616'", {{"offset", "18446744073709551616"}});
  wrong("'length' must be a number of bytes; it is '4 '", {{"length", "4 "}});
  wrong("'length' must be a number of bytes; it is ''", {{"length", ""}});
  wrong("'length' must be a number of bytes; it is '0x4'", {{"length", "0x4"}});
  wrong("entry 'basepath' is unknown", {{"basepath", "/etc"}});
  wrong("entry 'offset' is given twice", {{"offset", "1"}, {"offset", "2"}});
  expect_refused(Code::kNotFound, "external data 'none.bin' cannot be opened", {{"location", "none.bin"}});
  model_.Clear();
  add("w", 4, {{"location", "weights.bin"}});
  model_.mutable_graph()->mutable_initializer(0)->set_raw_data("1234");
  expect_error(Code::kMalformed, "initializer 'w'", [&] { read(); });
}

TEST_F(ExternalData, ChangedFilesAreDetected) {
  add("w", 4, {{"location", "weights.bin"}});
  onnx::Model got = read();
  write_file(folder_ / "model/weights.bin", "0123456789 and more");
  // Not at each read, which would be a system call for each row of a matrix: before the output gets its name.
  expect_error(Code::kIo, "weights.bin: the file was changed", [&] {
    for (const auto& source : got.sources) source->check_unchanged();
  });
}

TEST_F(ExternalData, AThousandFilesUseFewDescriptors) {
  struct rlimit before = {};
  getrlimit(RLIMIT_NOFILE, &before);
  struct rlimit small = {128, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &small);
  for (int i = 0; i < 1000; ++i) {
    const std::string name = "w" + std::to_string(i);
    write_file(folder_ / ("model/" + name), name + "   ");
    add(name, 4, {{"location", name}});
  }
  onnx::Model got = read();
  for (const onnx::Tensor& tensor : got.graph.initializers)
    EXPECT_TRUE(tensor.name.starts_with(text(tensor).substr(0, 2)));
  for (const auto& source : got.sources) source->check_unchanged();
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(got.sources.size(), 1001u);
}

}  // namespace
}  // namespace lowtide::stream
