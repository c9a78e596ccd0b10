// SPDX-License-Identifier: Apache-2.0
#include "stream/file/standard_input.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "stream/error.h"
#include "stream/file/system_call.h"

namespace lowtide::stream {
namespace {

std::shared_ptr<Source> of_descriptor(int descriptor, Access access) {
  const int number = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (number < 0)
    throw Error(Code::kIo, fmt::format("cannot be opened: {}", std::strerror(errno)),
                {.file = std::string(kStandardInput)});
  return open_descriptor(std::make_shared<Descriptor>(number), std::string(kStandardInput), access);
}

void copy_pipe(Spill& spill) {
  constexpr size_t kPiece = size_t{256} << 10;
  const uint64_t most = spill.free_bytes() / 2;
  std::vector<std::byte> piece(kPiece);
  while (true) {
    const ssize_t got = uninterrupted([&] { return read(STDIN_FILENO, piece.data(), piece.size()); });
    if (got < 0)
      throw Error(Code::kIo, fmt::format("cannot be read: {}", std::strerror(errno)),
                  {.file = std::string(kStandardInput)});
    if (got == 0) return;
    if (spill.size() + static_cast<uint64_t>(got) > most)
      throw Error(Code::kNoSpace,
                  fmt::format("more than {} bytes, half of what is free for temporary files (see TMPDIR)", most),
                  {.file = std::string(kStandardInput)});
    spill.append(std::span(piece).first(static_cast<size_t>(got)));
  }
}

}  // namespace

std::shared_ptr<Source> open_standard_input(Spill& spill, Access access) {
  struct stat info = {};
  if (fstat(STDIN_FILENO, &info) == 0 && (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)))
    return of_descriptor(STDIN_FILENO, access);
  copy_pipe(spill);
  return of_descriptor(spill.file()->number(), access);
}

bool begins_like_zstd(const Source& source) {
  constexpr std::array<std::byte, 4> kMagic = {std::byte{0x28}, std::byte{0xb5}, std::byte{0x2f}, std::byte{0xfd}};
  std::array<std::byte, 4> first = {};
  if (source.size() < first.size()) return false;
  source.read_at(0, first);
  return first == kMagic;
}

}  // namespace lowtide::stream
