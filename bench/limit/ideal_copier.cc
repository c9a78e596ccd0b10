// SPDX-License-Identifier: Apache-2.0
// The least that a conversion could do: copies a file from its end to its front into a reserved one, in one of two
// forms. mmap: each window of 4 MiB is mapped, populated at once, written and unmapped. pread: each piece of 1 MiB is
// read into the same buffer, which stays in the processor's cache, and written from there. With `cold`, 8 MiB before
// it are asked for ahead.
//
//     ideal_copier FROM TO mmap|pread [cold]
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

static void expect(bool holds, const char* what) {
  if (holds) return;
  perror(what);
  exit(1);
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const bool is_mapped = strcmp(argv[3], "mmap") == 0;
  const off_t window = is_mapped ? 4 << 20 : 1 << 20, ahead = 8 << 20;
  const int in = open(argv[1], O_RDONLY), out = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0644);
  struct stat info = {};
  expect(in >= 0 && out >= 0 && fstat(in, &info) == 0, "opening");
  expect(ftruncate(out, info.st_size) == 0 && fallocate(out, 0, 0, info.st_size) == 0, "reserving");
  void* buffer = mmap(nullptr, window, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  expect(buffer != MAP_FAILED, "a buffer");
  for (off_t end = info.st_size, begin = 0; end > 0; end = begin) {
    begin = (end - 1) / window * window;
    const auto bytes = static_cast<size_t>(end - begin);
    if (argc > 4) posix_fadvise(in, begin < ahead ? 0 : begin - ahead, ahead, POSIX_FADV_WILLNEED);
    void* from = buffer;
    if (is_mapped) {
      from = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, in, begin);
      expect(from != MAP_FAILED, "mapping");
      madvise(from, bytes, MADV_POPULATE_READ);
    } else {
      expect(pread(in, from, bytes, begin) == static_cast<ssize_t>(bytes), "reading");
    }
    expect(pwrite(out, from, bytes, begin) == static_cast<ssize_t>(bytes), "writing");
    if (is_mapped) munmap(from, bytes);
  }
  return close(out) == 0 ? 0 : 1;
}
