// SPDX-License-Identifier: Apache-2.0
#include "stream/file/temporary.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <cerrno>
#include <climits>
#include <set>
#include <thread>

#include "stream/file/file.h"
#include "tests/stream/scratch.h"

namespace lowtide::stream {
namespace {

std::set<std::string> names(const ScratchFolder& folder) {
  std::set<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) out.insert(entry.path().filename());
  return out;
}

TEST(Temporary, RemovesTemporariesOfDeadProcesses) {
  ScratchFolder folder;
  for (const char* name : {".out.lowtide-1-01234567", ".out.lowtide-4194304-89abcdef"}) write_file(folder / name, "x");
  Temporary made(folder / "out");
  EXPECT_EQ(names(folder), std::set<std::string>{made.path().filename()});
}

TEST(Temporary, KeepsFilesThatAreNotTemporariesOfThisOutput) {
  ScratchFolder folder;
  const std::set<std::string> others = {".out.lowtide-1-0123456",      ".out.lowtide-1-012345678",
                                        ".out.lowtide-1-0123456G",     ".out.lowtide--01234567",
                                        ".out.lowtide-1x-01234567",    ".out.lowtide-01234567",
                                        ".other.lowtide-1-01234567",   "out.lowtide-1-01234567",
                                        ".out.lowtide-1-01234567.bak", ".out"};
  for (const std::string& name : others) write_file(folder / name, "x");
  { Temporary made(folder / "out"); }
  EXPECT_EQ(names(folder), others);
}

TEST(Temporary, KeepsTemporariesInUse) {
  ScratchFolder folder;
  Temporary first(folder / "out");
  const int number = open((folder / ".out.lowtide-1-01234567").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(flock(number, LOCK_EX | LOCK_NB), 0);
  {
    Temporary second(folder / "out");
    EXPECT_EQ(folder.entries(), 3u);
    EXPECT_EQ(second.close(), 0);
    Temporary third(folder / "out");  // the second is closed and not yet renamed
    EXPECT_EQ(second.rename(), 0);
  }
  close(number);
  Temporary last(folder / "out");
  EXPECT_EQ(names(folder), (std::set<std::string>{"out", first.path().filename(), last.path().filename()}));
}

TEST(Temporary, IsAloneWhenNoOtherOneIsInUse) {
  ScratchFolder folder;
  write_file(folder / ".out.lowtide-1-01234567", "x");
  Temporary first(folder / "out"), other(folder / "other");
  write_file(folder / ".out.lowtide-1-01234567", "x");  // of a dead process
  EXPECT_TRUE(first.is_alone());
  {
    Temporary second(folder / "out");
    EXPECT_FALSE(first.is_alone());
    EXPECT_FALSE(second.is_alone());
    EXPECT_EQ(second.close(), 0);
    EXPECT_FALSE(first.is_alone());
    EXPECT_EQ(second.rename(), 0);
  }
  EXPECT_TRUE(first.is_alone());
  EXPECT_TRUE(other.is_alone());
}

TEST(Temporary, DoesNotFollowLinks) {
  ScratchFolder folder;
  write_file(folder / "precious", "x");
  std::filesystem::create_symlink("precious", folder / ".out.lowtide-1-01234567");
  std::filesystem::create_directory(folder / ".out.lowtide-1-01234568");
  { Temporary made(folder / "out"); }
  EXPECT_EQ(read_file(folder / "precious"), "x");
  EXPECT_EQ(folder.entries(), 3u);
}

// Only asked for: what is wrong here would be written to /dev.
TEST(Temporary, NothingIsPutIntoTheFoldersOfTheSystem) {
  ScratchFolder folder;
  EXPECT_EQ(system_folder("/dev/stdout"), "/dev");
  EXPECT_EQ(system_folder("/dev/../dev/x.tflite"), "/dev/../dev");
  EXPECT_EQ(system_folder("/proc/self/fd/1"), "/proc/self/fd");
  EXPECT_EQ(system_folder("/proc/x.tflite"), "/proc");
  std::filesystem::create_symlink("/proc/self/fd/1", folder / "direct");
  std::filesystem::create_symlink("direct", folder / "indirect");
  EXPECT_EQ(system_folder(folder / "indirect"), "/proc/self/fd");
  expect_error(Code::kUnsafePath, "no output is written to /proc/self/fd; for standard output use -o -",
               [&] { Temporary made(folder / "indirect"); });
  std::filesystem::create_symlink("loop", folder / "loop");
  for (const char* name : {"out", "loop", "absent/out"}) EXPECT_EQ(system_folder(folder / name), std::nullopt) << name;
  EXPECT_EQ(system_folder("out"), std::nullopt);
  EXPECT_EQ(folder.entries(), 3u);
}

TEST(Temporary, AFolderThatIsMissingIsNotAFileThatCannotBeMade) {
  ScratchFolder folder;
  EXPECT_EQ(creation_error(folder / "absent/out", ENOENT).text(),
            "the folder '" + (folder / "absent").string() + "' does not exist");
  EXPECT_EQ(creation_error(folder / "out", ENOENT).text(),
            "cannot create a file in '" + folder.path().string() + "': No such file or directory");
  EXPECT_EQ(creation_error(folder / "out", EROFS).code(), Code::kNotFound);
  EXPECT_EQ(creation_error(folder / "out", ENOSPC).code(), Code::kNoSpace);
}

TEST(Temporary, ALongNameIsCut) {
  ScratchFolder folder;
  std::string letters;  // of two bytes each
  while (letters.size() < NAME_MAX - 1) letters += "ü";
  for (const std::string& name : {std::string(NAME_MAX, 'n'), letters}) {
    Temporary made(folder / name);
    const std::string cut = made.path().filename();
    EXPECT_LE(cut.size(), NAME_MAX + 0u);
    EXPECT_GE(cut.size(), 200u);
    EXPECT_EQ(cut.substr(1, 100), name.substr(0, 100));
    const size_t mark = cut.find(".lowtide-");
    EXPECT_TRUE(name == letters ? mark % 2 == 1 : true) << "cut inside a letter: " << cut;
    EXPECT_EQ(made.close(), 0);
    EXPECT_EQ(made.rename(), 0);
  }
  EXPECT_EQ(folder.entries(), 2u);
}

// Each looks for temporaries of dead processes while others are between creation and lock, or closing and renaming.
TEST(Temporary, ConcurrentRunsKeepEachOthersTemporaries) {
  ScratchFolder folder;
  auto work = [&] {
    for (int i = 0; i < 200; ++i) {
      Temporary made(folder / "out");
      EXPECT_EQ(made.close(), 0);
      EXPECT_EQ(made.rename(), 0);
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back(work);
  }
  EXPECT_EQ(names(folder), std::set<std::string>{"out"});
}

}  // namespace
}  // namespace lowtide::stream
