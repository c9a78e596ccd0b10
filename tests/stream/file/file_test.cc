// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "stream/file/out_file.h"
#include "tests/stream/scratch.h"

namespace lowtide::stream {
namespace {

TEST(File, ReadsRangesAndNothingBeyondTheEnd) {
  ScratchFolder folder;
  write_file(folder / "a", "0123456789");
  for (auto& source : {open_file(folder / "a"), memory_source(to_bytes("0123456789"), "memory")}) {
    EXPECT_EQ(source->size(), 10u);
    EXPECT_EQ(read_text(*source, 3, 4), "3456");
    EXPECT_EQ(read_text(*source, 10, 0), "");
    expect_error(Code::kMalformed, "the file ends at byte 10", [&] { read_text(*source, 7, 4); });
    expect_error(Code::kMalformed, "the file ends at byte 10", [&] { read_text(*source, UINT64_MAX, 2); });
    source->check_unchanged();
  }
}

TEST(File, OpensRegularFilesOnly) {
  ScratchFolder folder;
  expect_error(Code::kNotFound, "No such file", [&] { open_file(folder / "missing"); });
  expect_error(Code::kUnsafePath, "a folder, not a file", [&] { open_file(folder.path()); });
  expect_error(Code::kUnsafePath, "not a regular file", [&] { open_file("/dev/zero"); });
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  expect_error(Code::kUnsafePath, "not a regular file", [&] { open_file(folder / "pipe"); });
}

TEST(File, ChangedFilesAreDetected) {
  ScratchFolder folder;
  write_file(folder / "a", std::string(8192, 'x'));
  auto source = open_file(folder / "a");
  std::filesystem::resize_file(folder / "a", 100);
  expect_error(Code::kIo, "became shorter", [&] { read_text(*source, 0, 8192); });
  expect_error(Code::kIo, "was changed", [&] { source->check_unchanged(); });
}

TEST(File, LinksToOneFileAreTheSameFile) {
  ScratchFolder folder;
  write_file(folder / "a", "1");
  write_file(folder / "b", "1");
  std::filesystem::create_symlink("a", folder / "link");
  EXPECT_TRUE(same_file(folder / "a", folder / "link"));
  EXPECT_FALSE(same_file(folder / "a", folder / "b"));
  EXPECT_FALSE(same_file(folder / "a", folder / "missing"));
}

TEST(OutFile, WritesInAnyOrderAndAppearsWhenCommitted) {
  ScratchFolder folder;
  write_file(folder / "out", "what was there before");
  auto source = memory_source(to_bytes("abcdef"), "memory");
  std::vector<std::byte> scratch(2);
  {
    OutFile out(folder / "out", 12);
    out.write_at(8, to_bytes("tail"));
    out.copy_from(*source, 1, 3, 5, scratch);
    out.write_at(0, to_bytes("123"));
    EXPECT_EQ(read_file(folder / "out"), "what was there before");
    out.commit();
  }
  EXPECT_EQ(read_file(folder / "out"), "123bcdeftail");
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(OutFile, CopiesThroughScratchOfAnySize) {
  ScratchFolder folder;
  std::string bytes;
  for (int i = 0; i < 300000; ++i) bytes += static_cast<char>(i * 31 + i / 251);
  write_file(folder / "in", bytes);
  auto source = open_file(folder / "in");
  for (size_t scratch_bytes : {7, 5000, 1 << 20}) {
    std::vector<std::byte> scratch(scratch_bytes);
    OutFile out(folder / "out", bytes.size() + 7);
    out.write_at(0, to_bytes("header:"));
    out.copy_from(*source, 123, 7 + 123, bytes.size() - 123, scratch);
    out.copy_from(*source, 0, 7, 123, scratch);
    out.commit();
    EXPECT_EQ(read_file(folder / "out"), "header:" + bytes) << scratch_bytes;
  }
}

// A megabyte that holds "data" at each of `places` and nothing else.
void write_sparse(const std::filesystem::path& path, std::initializer_list<size_t> places) {
  std::ofstream out(path, std::ios::binary);
  for (size_t place : places) out.seekp(static_cast<std::streamoff>(place)).write("data", 4);
  out.close();
  std::filesystem::resize_file(path, 1 << 20);
}

uint64_t stored_bytes(const std::filesystem::path& path) {
  struct stat info = {};
  stat(path.c_str(), &info);
  return static_cast<uint64_t>(info.st_blocks) * 512;
}

TEST(File, FindsHoles) {
  ScratchFolder folder;
  write_sparse(folder / "a", {100, 500000});
  if (stored_bytes(folder / "a") >= 1 << 20) GTEST_SKIP() << "the filesystem of the temporary folder keeps no holes";
  auto source = open_file(folder / "a");
  const Range first = source->next_hole(0, 1 << 20);
  EXPECT_GE(first.begin, 104u);
  EXPECT_LE(first.end, 500000u);
  EXPECT_GT(first.bytes(), 300000u);
  const Range second = source->next_hole(first.end, 1 << 20);
  EXPECT_GE(second.begin, 500004u);
  EXPECT_EQ(second.end, 1u << 20);
  // Only what is asked for is answered.
  const Range middle = source->next_hole(200001, 300003);
  EXPECT_EQ(middle.begin, 200001u);
  EXPECT_EQ(middle.end, 300003u);
  EXPECT_EQ(source->next_hole(500000, 500004).bytes(), 0u);
  write_file(folder / "full", std::string(100000, 'x'));
  EXPECT_EQ(open_file(folder / "full")->next_hole(0, 100000).begin, 100000u);
  EXPECT_EQ(memory_source(to_bytes("abc"), "memory")->next_hole(0, 3).begin, 3u);
}

TEST(OutFile, HolesAreKept) {
  ScratchFolder folder;
  write_sparse(folder / "in", {0, 70000, 500000, (1 << 20) - 4});
  if (stored_bytes(folder / "in") >= 1 << 20) GTEST_SKIP() << "the filesystem of the temporary folder keeps no holes";
  auto source = open_file(folder / "in");
  for (size_t scratch_bytes : {7, 5000, 1 << 20}) {
    std::vector<std::byte> scratch(scratch_bytes);
    OutFile out(folder / "out", (1 << 20) + 7, 7);
    out.reserve({0, 7});
    out.write_at(0, to_bytes("header:"));
    out.copy_from(*source, 0, 7, 60001, scratch);
    out.copy_from(*source, 60001, 60008, (1 << 20) - 60001, scratch);
    out.commit();
    EXPECT_EQ(read_file(folder / "out"), "header:" + read_file(folder / "in")) << scratch_bytes;
    EXPECT_LT(stored_bytes(folder / "out"), 1u << 18);
  }
}

TEST(OutFile, LeavesNoFileWithoutCommit) {
  ScratchFolder folder;
  {
    OutFile out(folder / "out", 1000);
    EXPECT_EQ(folder.entries(), 1u);
    EXPECT_TRUE(out.temporary().filename().string().starts_with(".out.lowtide-"));
    expect_error(Code::kInternal, "beyond the planned size", [&] { out.write_at(999, to_bytes("ab")); });
  }
  EXPECT_EQ(folder.entries(), 0u);
}

TEST(OutFile, TemporariesCanBeRemovedFromASignalHandler) {
  ScratchFolder folder;
  OutFile a(folder / "a", 10), b(folder / "b", 10);
  {
    OutFile done(folder / "done", 1);
    done.commit();
  }
  remove_temporaries();
  EXPECT_EQ(folder.entries(), 1u);
  EXPECT_TRUE(std::filesystem::exists(folder / "done"));
  expect_error(Code::kIo, "renaming", [&] { a.commit(); });
}

TEST(OutFile, RefusesFoldersAndDevices) {
  ScratchFolder folder;
  expect_error(Code::kUnsafePath, "is a folder", [&] { OutFile(folder.path(), 1); });
  expect_error(Code::kUnsafePath, "not a regular file", [&] { OutFile("/dev/null", 1); });
  std::filesystem::create_symlink("/dev/null", folder / "link");
  expect_error(Code::kUnsafePath, "not a regular file", [&] { OutFile(folder / "link", 1); });
  expect_error(Code::kUnsafePath, "needs a file name", [&] { OutFile(folder.path() / "", 1); });
  expect_error(Code::kNotFound, "missing' does not exist", [&] { OutFile(folder / "missing/out", 1); });
}

TEST(OutFile, AFullDiskIsDetectedAtTheStart) {
  ScratchFolder folder;
  const uint64_t much = uint64_t{1} << 50;
  expect_error(Code::kNoSpace, "1125899906842624 bytes are needed", [&] { OutFile(folder / "out", much); });
  EXPECT_EQ(folder.entries(), 0u);
  expect_error(Code::kNoSpace, "bytes are needed", [&] { OutFile(folder / "out", UINT64_MAX); });
  EXPECT_EQ(folder.entries(), 0u);
}

TEST(OutFile, OnlyTheDataOfASparseFileMustFit) {
  ScratchFolder folder;
  const uint64_t much = uint64_t{1} << 42;
  {
    OutFile out(folder / "out", much, 10);
    out.reserve({much - 10, much});
  }
  expect_error(Code::kNoSpace, "4398046510080 bytes are needed", [&] {
    OutFile out(folder / "out", much, much - 1024);
    out.reserve({0, 512});
    out.reserve({1536, much});
  });
  EXPECT_EQ(folder.entries(), 0u);
}

TEST(OutFile, AFileSizeLimitIsAnErrorNotASignal) {
  ScratchFolder folder;
  struct rlimit before = {};
  getrlimit(RLIMIT_FSIZE, &before);
  struct rlimit small = {4096, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  auto error = error_of([&] { OutFile(folder / "out", 8192); });
  setrlimit(RLIMIT_FSIZE, &before);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), Code::kNoSpace);
  EXPECT_EQ(folder.entries(), 0u);
}

TEST(OutFile, AReadOnlyFolderIsAnError) {
  ScratchFolder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0555));
  const uid_t user = geteuid();
  if (user == 0) {  // root may write anywhere
    ASSERT_EQ(seteuid(65534), 0);
  }
  auto error = error_of([&] { OutFile(folder / "out", 1); });
  ASSERT_EQ(seteuid(user), 0);
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), Code::kNotFound);
  EXPECT_NE(error->text().find("Permission denied"), std::string::npos) << error->text();
}

}  // namespace
}  // namespace lowtide::stream
