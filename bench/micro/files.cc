// SPDX-License-Identifier: Apache-2.0
// The ways in and out: the walk over a model's protobuf, and the output file written back to front. Files lie in the
// page cache, in $TMPDIR or /tmp.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "bench/micro/against_memcpy.h"
#include "bench/models.h"
#include "stream/file/budget.h"
#include "stream/file/out_file.h"
#include "stream/onnx/reader.h"

namespace lowtide::bench {
namespace {

namespace fs = std::filesystem;

// A folder that goes away again.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("lowtide-micro-" + std::to_string(getpid()))) {
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// Weights outside, so that the protobuf is nodes and names and nothing that the walk would jump over.
void walk(benchmark::State& state) {
  Folder folder;
  const fs::path model = folder.path() / "m.onnx";
  ModelSpec spec{.kind = "conv-stack", .size_bytes = uint64_t{64} << 20, .external = true};
  make_model(spec, model);
  against_memcpy(state, fs::file_size(model), [&] {
    stream::Budget budget(uint64_t{16} << 20);
    benchmark::DoNotOptimize(stream::read_onnx(model, budget));
  });
}
BENCHMARK(walk)->Name("read/protobuf walk, nodes only")->UseManualTime();

void write_back_to_front(benchmark::State& state) {
  const auto file_run = static_cast<uint64_t>(state.range(0)) << 20;
  constexpr uint64_t kBytes = uint64_t{256} << 20;
  Folder folder;
  std::vector<std::byte> data(file_run, std::byte{5});
  against_memcpy(state, kBytes, [&] {
    stream::OutFile out(folder.path() / "out", kBytes);
    for (uint64_t end = kBytes; end > 0; end -= file_run) out.write_at(end - file_run, data);
    out.commit();
  });
}
BENCHMARK(write_back_to_front)->Name("write/back to front, MiB a write")->Arg(1)->Arg(4)->Arg(8)->UseManualTime();

void copy(benchmark::State& state) {
  constexpr uint64_t kBytes = uint64_t{256} << 20;
  Folder folder;
  const fs::path input = folder.path() / "in";
  {
    stream::OutFile made(input, kBytes);
    std::vector<std::byte> data(uint64_t{1} << 20, std::byte{7});
    for (uint64_t at = 0; at < kBytes; at += data.size()) made.write_at(at, data);
    made.commit();
  }
  auto source = stream::open_file(input);
  std::vector<std::byte> scratch(static_cast<uint64_t>(state.range(0)) << 10);
  against_memcpy(state, kBytes, [&] {
    stream::OutFile out(folder.path() / "out", kBytes);
    out.copy_from(*source, 0, 0, kBytes, scratch);
    out.commit();
  });
}
BENCHMARK(copy)->Name("write/copy of a file, KiB of scratch")->Arg(64)->Arg(1024)->Arg(4096)->UseManualTime();

}  // namespace
}  // namespace lowtide::bench
