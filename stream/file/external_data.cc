// SPDX-License-Identifier: Apache-2.0
#include "stream/file/external_data.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <mutex>
#include <string_view>
#include <utility>

#include "stream/error.h"
#include "stream/file/system_call.h"
#include "stream/file/window.h"

namespace lowtide::stream {
namespace {

// O_NONBLOCK: opening a pipe must not wait for its writer.
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW;

[[noreturn]] void unsafe(const std::string& location, std::string_view reason) {
  throw Error(Code::kUnsafePath, fmt::format("external data '{}': {}", location, reason));
}

[[noreturn]] void fail(const std::string& location, int error) {
  if (error == ELOOP)
    unsafe(location,
           "a symbolic link (copy the files to the model's folder, e.g. with cp -L, or allow links inside "
           "one folder with --follow-links)");
  if (error == EXDEV) unsafe(location, "leads out of the model's folder");
  throw Error(opening_code(error),
              fmt::format("external data '{}' cannot be opened: {}{}", location, std::strerror(error),
                          error == ENOENT ? "; it is looked for in the model's folder" : ""));
}

// The components of a path that stays below its folder by its text alone.
std::vector<std::string> components(const std::string& location) {
  if (location.empty()) unsafe(location, "no location");
  if (location.find('\0') != std::string::npos) unsafe(location, "a NUL in the location");
  if (location.front() == '/') unsafe(location, "an absolute path");
  std::vector<std::string> parts;
  bool names_file = false;  // the last component is a name
  for (size_t begin = 0; begin <= location.size();) {
    const size_t end = std::min(location.find('/', begin), location.size());
    std::string part = location.substr(begin, end - begin);
    if (part == "..") unsafe(location, "leads out of the model's folder");
    names_file = !part.empty() && part != ".";
    if (names_file) parts.push_back(std::move(part));
    begin = end + 1;
  }
  if (!names_file) unsafe(location, "a folder");
  return parts;
}

// A descriptor, or -1 with errno; ENOSYS when there is no such call here.
int open_by_kernel(int folder, const std::string& location, bool follows_links) {
  open_how how = {};
  how.flags = static_cast<uint64_t>(follows_links ? kOpenFlags & ~O_NOFOLLOW : kOpenFlags);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | (follows_links ? 0 : RESOLVE_NO_SYMLINKS);
  constexpr int kTries = 16;  // EAGAIN: something was renamed meanwhile
  long number = -1;
  for (int i = 0; i < kTries; ++i) {
    number = syscall(SYS_openat2, folder, location.c_str(), &how, sizeof(how));
    if (number >= 0 || (errno != EAGAIN && errno != EINTR)) break;
  }
  return static_cast<int>(number);
}

// Without following links: a link among the folders is ENOTDIR, which hides what it is; so it is asked for.
int open_by_walk(int folder, const std::vector<std::string>& parts) {
  std::shared_ptr<const Descriptor> held;
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool is_last = i + 1 == parts.size();
    const int flags = is_last ? kOpenFlags : O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    const int number = uninterrupted([&] { return openat(folder, parts[i].c_str(), flags); });
    if (number < 0) {
      const int error = errno;
      struct stat info = {};
      const bool is_link = fstatat(folder, parts[i].c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode);
      errno = is_link ? ELOOP : error;
      return -1;
    }
    if (is_last) return number;
    held = std::make_shared<Descriptor>(number);
    folder = number;
  }
  errno = ENOENT;
  return -1;
}

// Follows links by their text, a component at a time, and never above `root`. A descriptor, or -1 with errno.
int follow_by_walk(int root, const std::string& path) {
  constexpr int kMostLinks = 40;  // as the kernel
  int links = 0;
  std::vector<std::shared_ptr<const Descriptor>> folders;  // below the root, the one we are in last
  std::vector<std::string> left;                           // of the path, the next component last
  auto push = [&](const std::string& text) {
    std::vector<std::string> parts;
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find('/', begin), text.size());
      parts.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    left.insert(left.end(), parts.rbegin(), parts.rend());
  };
  auto fail_with = [](int error) {
    errno = error;
    return -1;
  };
  push(path);
  while (!left.empty()) {
    const std::string part = std::move(left.back());
    left.pop_back();
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      if (folders.empty()) return fail_with(EXDEV);
      folders.pop_back();
      continue;
    }
    const int here = folders.empty() ? root : folders.back()->number();
    const int number = uninterrupted([&] { return openat(here, part.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC); });
    if (number < 0) return -1;
    auto found = std::make_shared<Descriptor>(number);
    struct stat info = {};
    if (fstat(number, &info) != 0) return -1;
    if (S_ISLNK(info.st_mode)) {
      std::string target(PATH_MAX, '\0');
      const ssize_t length = readlinkat(number, "", target.data(), target.size());
      if (length <= 0) return fail_with(length < 0 ? errno : ENOENT);
      if (++links > kMostLinks) return fail_with(ELOOP);
      if (target.front() == '/') return fail_with(EXDEV);
      push(target.substr(0, static_cast<size_t>(length)));
    } else if (S_ISDIR(info.st_mode)) {
      folders.push_back(std::move(found));
    } else if (!left.empty()) {
      return fail_with(ENOTDIR);  // also a slash behind a file
    } else {
      return uninterrupted([&] { return openat(here, part.c_str(), kOpenFlags); });
    }
  }
  return folders.empty() ? fail_with(EISDIR) : dup(folders.back()->number());
}

std::shared_ptr<const Descriptor> checked_file(const std::string& location, int number) {
  auto file = std::make_shared<Descriptor>(number);
  struct stat info = {};
  if (fstat(number, &info) != 0) fail(location, errno);
  if (!S_ISREG(info.st_mode)) unsafe(location, "not a regular file");
  if (info.st_nlink > 1) unsafe(location, "a hard link: the file has other names (copy it to the model's folder)");
  return file;
}

}  // namespace

std::shared_ptr<const Descriptor> open_below(int folder, const std::string& location, Resolver resolver) {
  const std::vector<std::string> parts = components(location);
  int number = -1;
  errno = ENOSYS;
  if (resolver == Resolver::kKernel) number = open_by_kernel(folder, location, false);
  // EPERM: containers of older make forbid calls that they do not know.
  if (number < 0 && (errno == ENOSYS || errno == EPERM)) number = open_by_walk(folder, parts);
  if (number < 0) fail(location, errno);
  return checked_file(location, number);
}

std::shared_ptr<const Descriptor> open_within(int root, const std::string& folder, const std::string& location,
                                              Resolver resolver) {
  components(location);  // the location itself stays below the model's folder by its text
  const std::string path = folder + "/" + location;
  int number = -1;
  errno = ENOSYS;
  if (resolver == Resolver::kKernel) number = open_by_kernel(root, path, true);
  if (number < 0 && (errno == ENOSYS || errno == EPERM)) number = follow_by_walk(root, path);
  if (number < 0 && errno == EXDEV) unsafe(location, "a symbolic link that leads out of the folder of --follow-links");
  if (number < 0 && errno == ELOOP) unsafe(location, "too many symbolic links");
  if (number < 0) fail(location, errno);
  return checked_file(location, number);
}

// The model's folder and the descriptors of the files that were read last.
class ExternalFiles::Folder {
 public:
  Folder(const std::filesystem::path& path, const std::filesystem::path& follow)
      : path_(path), follows_links_(!follow.empty()) {
    if (follows_links_) {
      folder_ = open_folder(follow, "--follow-links: the folder");
      inside_ = relative_to(path, follow);
    } else {
      folder_ = open_folder(path, "the model's folder");
    }
  }

  std::string name_of(const std::string& location) const { return (path_ / location).string(); }

  // The descriptor of a file, with `check` called when it was opened for it.
  template <typename Check>
  std::shared_ptr<const Descriptor> file(const std::string& location, const Check& check) {
    std::lock_guard lock(mutex_);
    auto it = std::find_if(open_.begin(), open_.end(), [&](const Open& open) { return open.location == location; });
    if (it == open_.end()) {
      if (open_.size() == kMaxOpen) open_.pop_back();
      auto descriptor =
          follows_links_ ? open_within(folder_->number(), inside_, location) : open_below(folder_->number(), location);
      check(descriptor->number());
      it = open_.insert(open_.end(), {location, std::move(descriptor)});
    }
    std::rotate(open_.begin(), it, it + 1);
    return open_.front().descriptor;
  }

 private:
  struct Open {
    std::string location;
    std::shared_ptr<const Descriptor> descriptor;
  };

  static std::shared_ptr<const Descriptor> open_folder(const std::filesystem::path& path, const char* what) {
    const int number = uninterrupted([&] { return ::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC); });
    if (number < 0) {
      const int error = errno;
      throw Error(opening_code(error), error == ENOENT ? fmt::format("{} '{}' does not exist", what, path.string())
                                                       : fmt::format("{} '{}' cannot be opened: {}", what,
                                                                     path.string(), std::strerror(error)));
    }
    return std::make_shared<Descriptor>(number);
  }

  static std::string relative_to(const std::filesystem::path& path, const std::filesystem::path& root) {
    std::error_code none, other;
    const std::filesystem::path inside =
        std::filesystem::canonical(path, none).lexically_relative(std::filesystem::canonical(root, other));
    if (none || other || inside.empty() || *inside.begin() == "..")
      throw Error(Code::kUnsafePath, fmt::format("--follow-links: the model's folder '{}' is not inside '{}'",
                                                 path.string(), root.string()));
    return inside.string();
  }

  std::filesystem::path path_;
  bool follows_links_;
  std::string inside_;                        // with links followed: path_, relative to the folder that is open
  std::shared_ptr<const Descriptor> folder_;  // path_, or the folder in which links are followed
  std::mutex mutex_;
  std::vector<Open> open_;  // the one used last in front
};

class ExternalFiles::File final : public Source {
 public:
  File(std::shared_ptr<Folder> folder, std::string location, Access access)
      : folder_(std::move(folder)), location_(std::move(location)), name_(folder_->name_of(location_)) {
    if (access == Access::kMap) guard_.emplace();
    identity_ = identity(folder_->file(location_, [](int) {})->number(), name_);
  }

  uint64_t size() const override { return identity_.size; }
  const std::string& name() const override { return name_; }
  std::filesystem::path path() const override { return name_; }
  void read_at(uint64_t offset, std::span<std::byte> out) const override {
    check_range(offset, out.size(), identity_.size, name_);
    read_fully(descriptor()->number(), offset, out, name_);
  }
  void will_read(uint64_t offset, uint64_t bytes) const override {
    ahead_.before(descriptor()->number(), offset, bytes);
  }
  bool is_cached(uint64_t offset) const override { return stream::is_cached(descriptor()->number(), offset); }
  Window window(uint64_t offset, uint64_t bytes, Budget& budget) const override {
    check_range(offset, bytes, identity_.size, name_);
    return guard_ ? map_window(*this, descriptor()->number(), offset, bytes, budget) : Window();
  }
  Range next_hole(uint64_t offset, uint64_t end) const override {
    return stream::next_hole(descriptor()->number(), offset, end);
  }
  void check_unchanged() const override { check(descriptor()->number()); }

 private:
  // Held only while it is used: few files are open at once. A file that is opened again must be the one it was; one
  // that changes while it is open is found by check_unchanged(), because a look at each read would cost as much again.
  std::shared_ptr<const Descriptor> descriptor() const {
    return folder_->file(location_, [&](int number) { check(number); });
  }
  void check(int number) const {
    if (identity(number, name_) != identity_)
      throw Error(Code::kIo, "the file was changed while it was being read", {.file = name_});
  }

  std::shared_ptr<Folder> folder_;
  std::string location_, name_;
  Identity identity_;
  std::optional<FaultGuard> guard_;  // as long as there may be windows
  mutable ReadAhead ahead_;
};

ExternalFiles::ExternalFiles(const std::filesystem::path& folder, Spill& spill, Budget& budget, Access access,
                             const std::filesystem::path& follow)
    : folder_(std::make_shared<Folder>(folder, follow)), spill_(spill), budget_(budget), access_(access) {}

std::shared_ptr<Source> ExternalFiles::open(const std::string& location) {
  auto it = files_.find(location);
  if (it == files_.end()) it = files_.emplace(location, open_new(location)).first;
  return it->second;
}

std::shared_ptr<Source> ExternalFiles::open_stored(const std::string& location) {
  return std::make_shared<File>(folder_, location, access_);
}

std::shared_ptr<Source> ExternalFiles::open_new(const std::string& location) {
  std::shared_ptr<Source> file;
  bool is_compressed = location.ends_with(".zst");
  try {
    file = open_stored(location);
  } catch (Error& error) {
    if (error.code() != Code::kNotFound || is_compressed) throw;
    try {
      file = open_stored(location + ".zst");
    } catch (Error& second) {
      if (second.code() != Code::kNotFound) throw;
      throw error;  // the user looks for the name that the model gives
    }
    is_compressed = true;
  }
  return is_compressed ? decompress(*file, spill_, budget_) : file;
}

std::vector<std::shared_ptr<Source>> ExternalFiles::sources() const {
  std::vector<std::shared_ptr<Source>> sources;
  for (const auto& [location, file] : files_) sources.push_back(file);
  return sources;
}

}  // namespace lowtide::stream
