// SPDX-License-Identifier: Apache-2.0
// For tests of files: a folder that is removed at the end, bytes in files, and the error that a call throws.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stream/error.h"
#include "stream/file/file.h"

namespace lowtide::stream {

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "lowtide-test-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }
  size_t entries() const { return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path_), {})); }

 private:
  std::filesystem::path path_;
};

inline void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::vector<std::byte> to_bytes(std::string_view text) {
  auto begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

inline std::string read_text(const Source& source, uint64_t offset, uint64_t bytes) {
  std::string out(bytes, '\0');
  source.read_at(offset, std::as_writable_bytes(std::span(out)));
  return out;
}

// The Error that `call` throws, or none.
template <typename Call>
std::optional<Error> error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

// The code of the Error that `call` throws; a failure of the test when it throws none.
template <typename Call>
Code code_of(Call&& call) {
  const std::optional<Error> error = error_of(call);
  EXPECT_TRUE(error.has_value()) << "no error";
  return error ? error->code() : Code::kInternal;
}

// That `call` throws this kind of error, with this in its line.
template <typename Call>
void expect_error(Code code, std::string_view part, Call&& call) {
  auto error = error_of(call);
  ASSERT_TRUE(error.has_value()) << "no error; expected: " << part;
  EXPECT_EQ(code_name(error->code()), code_name(code)) << error->what();
  EXPECT_NE(std::string(error->what()).find(part), std::string::npos) << error->what() << "\nlacks: " << part;
}

// A number of /proc/self/status in bytes, such as VmHWM.
inline uint64_t process_status(std::string_view key) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key)) return std::strtoull(line.c_str() + key.size() + 1, nullptr, 10) * 1024;
  return 0;
}

}  // namespace lowtide::stream
