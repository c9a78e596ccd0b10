// SPDX-License-Identifier: Apache-2.0
// Locations of external data, in a folder that holds what an attacker could use: links out of it, hard
// links, a pipe. Whatever the entries say, the bytes come from the folder's own regular files or there is an Error; and
// openat2 and the fallback without it agree.
//
// The input is lines: location, offset, length, number of elements, checksum, then pairs of another key and its value.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <charconv>
#include <fstream>
#include <set>

#include "schemas/onnx.pb.h"
#include "stream/file/external_data.h"
#include "stream/onnx/reader.h"
#include "stream/recipe/recipe_reader.h"
#include "tests/fuzz/target.h"

namespace {

using namespace lowtide;
namespace fs = std::filesystem;
namespace pb = ::onnx;

constexpr char kInside = 'i', kOutside = 'o';
constexpr size_t kFileBytes = 4096;

void write_file(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

std::string compressed(const std::string& bytes) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 1));
  return out;
}

// The model's folder, made once. Each regular file inside is all `kInside`, everything else `kOutside`.
struct Folder {
  fs::path model = fuzz::scratch_folder() / "model";
  std::set<std::string> allowed;
  int number = -1;

  Folder() {
    const std::string inside(kFileBytes, kInside), outside(kFileBytes, kOutside);
    fs::create_directories(model / "sub" / "deep");
    fs::create_directories(model.parent_path() / "model2");
    for (const char* name : {"a", "sub/b", "sub/deep/c.bin", "..."}) allow(name, inside);
    allow("empty", "");
    allow("z.zst", compressed(inside));
    allow("sub/y.zst", compressed(inside));
    for (const char* name : {"secret", "model2/a"}) write_file(model.parent_path() / name, outside);
    fs::create_symlink("a", model / "link");
    fs::create_symlink("../secret", model / "out");
    fs::create_symlink("..", model / "up");
    fs::create_symlink("sub", model / "sublink");
    fs::create_symlink("/dev/zero", model / "zero");
    fs::create_symlink("../secret", model / "l.zst");
    fs::create_hard_link(model.parent_path() / "secret", model / "hard");
    fs::create_hard_link(model.parent_path() / "secret", model / "h.zst");
    if (mkfifo((model / "pipe").c_str(), 0600) != 0) std::abort();
    number = open(model.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (number < 0) std::abort();
  }

 private:
  void allow(const char* name, const std::string& bytes) {
    write_file(model / name, bytes);
    allowed.insert(fs::canonical(model / name).string());
  }
};

const Folder& folder() {
  static const Folder folder;
  return folder;
}

std::string path_of(const stream::Descriptor& descriptor) {
  return fs::read_symlink(fmt::format("/proc/self/fd/{}", descriptor.number())).string();
}

void check_inside(const std::string& path) {
  if (!folder().allowed.contains(path)) fuzz::finding("opened " + path);
}

// The result of both resolvers for a location: the file, or the kind of error.
std::string resolved(const std::string& location, stream::Resolver resolver) {
  std::string answer;
  fuzz::only_errors([&] {
    try {
      auto descriptor = stream::open_below(folder().number, location, resolver);
      answer = path_of(*descriptor);
      check_inside(answer);
    } catch (const stream::Error& error) {
      answer = stream::code_name(error.code());
      throw;
    }
  });
  return answer;
}

std::vector<std::string> lines(const uint8_t* data, size_t size) {
  std::vector<std::string> out(1);
  for (size_t i = 0; i < size; ++i) {
    if (data[i] == '\n') {
      out.emplace_back();
    } else {
      out.back().push_back(static_cast<char>(data[i]));
    }
  }
  if (out.size() < 5) out.resize(5);
  return out;
}

std::string model_of(const std::vector<std::string>& lines) {
  pb::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  pb::TensorProto& tensor = *model.mutable_graph()->add_initializer();
  tensor.set_name("w");
  tensor.set_data_type(pb::TensorProto::UINT8);
  int64_t elements = 0;
  std::from_chars(lines[3].data(), lines[3].data() + lines[3].size(), elements);
  tensor.add_dims(elements);
  tensor.set_data_location(pb::TensorProto::EXTERNAL);
  auto add = [&](const std::string& key, const std::string& value) {
    auto& entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  };
  add("location", lines[0]);
  if (!lines[1].empty()) add("offset", lines[1]);
  if (!lines[2].empty()) add("length", lines[2]);
  if (!lines[4].empty()) add("checksum", lines[4]);
  for (size_t i = 5; i + 1 < lines.size(); i += 2) add(lines[i], lines[i + 1]);
  return model.SerializeAsString();
}

// All elements, in pieces: a file is small, whatever the entries say.
void check_elements(const lowtide::onnx::Tensor& tensor, stream::Budget& budget) {
  const uint64_t elements = tensor.data->elements();
  if (elements > kFileBytes) fuzz::finding("more elements than the file has bytes");
  std::vector<std::byte> lanes(elements);
  stream::RecipeReader(tensor.data, budget).read(0, elements, lanes.data());
  for (std::byte lane : lanes)
    if (lane != static_cast<std::byte>(kInside)) fuzz::finding("bytes that are not of a file in the folder");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<std::string> given = lines(data, size);
  if (resolved(given[0], stream::Resolver::kKernel) != resolved(given[0], stream::Resolver::kWalk))
    fuzz::finding("the kernel and the walk disagree on " + given[0]);
  const std::string bytes = model_of(given);
  fuzz::only_errors([&] {
    stream::Budget budget(fuzz::kBudget);
    auto source = stream::memory_source(fuzz::bytes_of(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()),
                                        "fuzz.onnx");
    const lowtide::onnx::Model model = stream::read_onnx(std::move(source), folder().model, budget);
    for (const auto& each : model.sources)
      if (!each->path().empty()) check_inside(fs::canonical(each->path()));
    for (const auto& tensor : model.graph.initializers) check_elements(tensor, budget);
  });
  return 0;
}
