// SPDX-License-Identifier: Apache-2.0
// The least that a conversion could do: copies a file from its end to its front into a reserved one. Each window of
// 4 MiB is mapped, populated at once, written and unmapped. With `cold`, the windows before it are asked for ahead.
//
//     ideal_copier FROM TO [cold]
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

static void expect(bool holds, const char* what) {
  if (holds) return;
  perror(what);
  exit(1);
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  constexpr off_t kWindow = 4 << 20;
  const int in = open(argv[1], O_RDONLY), out = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0644);
  struct stat info = {};
  expect(in >= 0 && out >= 0 && fstat(in, &info) == 0, "opening");
  expect(ftruncate(out, info.st_size) == 0 && fallocate(out, 0, 0, info.st_size) == 0, "reserving");
  for (off_t end = info.st_size, begin = 0; end > 0; end = begin) {
    begin = (end - 1) / kWindow * kWindow;
    const auto bytes = static_cast<size_t>(end - begin);
    if (argc > 3) posix_fadvise(in, begin < 2 * kWindow ? 0 : begin - 2 * kWindow, 2 * kWindow, POSIX_FADV_WILLNEED);
    void* window = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, in, begin);
    expect(window != MAP_FAILED, "mapping");
    madvise(window, bytes, MADV_POPULATE_READ);
    expect(pwrite(out, window, bytes, begin) == static_cast<ssize_t>(bytes), "writing");
    munmap(window, bytes);
  }
  return close(out) == 0 ? 0 : 1;
}
