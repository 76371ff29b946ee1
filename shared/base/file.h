// Files: opening inputs, reading them whole, and writing so that a crash at any moment leaves the
// old content or the new, never half of it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "shared/base/descriptor.h"
#include "shared/base/error.h"

namespace retina {

// An input, opened for reading: nothing else opens one. Takes regular files alone, because opening
// or reading a pipe, a device or a file of /proc may wait without end. Throws kNoInput (missing,
// not readable, not a regular file), kIo (the mount).
class FileReader {
 public:
  explicit FileReader(const std::string& path);

  // Fills `buffer`, less only where the file ends; returns how many bytes came.
  std::size_t read(char* buffer, std::size_t size_bytes);
  // The next read() begins here, counted from the file's begin. Throws kIo.
  void seek(std::uint64_t offset_bytes);
  // As read(), from `offset_bytes` on; leaves alone where read() is. For any thread.
  std::size_t read_at(std::uint64_t offset_bytes, char* buffer, std::size_t size_bytes) const;
  // As the file system tells it: 0 where it does not.
  std::size_t size_bytes() const { return size_bytes_; }
  // Open as long as this object.
  int descriptor() const { return file_.get(); }

 private:
  std::string path_;
  Descriptor file_;
  std::size_t size_bytes_ = 0;
};

// Whole content of a file. Throws as FileReader, and kUnavailable when it is larger than memory.
std::string read_file(const std::string& path);

// More than any text that is not a data set's table has.
inline constexpr std::uint64_t kMostTextBytes = std::uint64_t{256} << 20;

// The same of a text. Throws kData when it has more than `max_bytes`.
std::string read_text(const std::string& path, std::uint64_t max_bytes = kMostTextBytes);

// Its first bytes, `max_bytes` at most. Throws as read_file.
std::string read_start(const std::string& path, std::size_t max_bytes);

// Its bytes from `offset_bytes` on, `max_bytes` at most; none beyond its end. Throws as read_file.
std::string read_part(const std::string& path, std::uint64_t offset_bytes, std::size_t max_bytes);

// Gives the file's bytes to `take`, a piece at a time. Throws as read_file.
void read_pieces(const std::string& path, const std::function<void(std::string_view)>& take);

// What it means that reading something failed with `code` (an errno): kNoInput when it is missing
// or this user may not read it, kUnavailable when this process is out of resources, else kIo: the
// mount.
Error read_error(const std::string& path, int code);
// Whether it is one of these that this user may not read.
bool is_denied(const Error& error);

// Whether an errno says that nothing has the name: neither the mount nor a permission is at fault.
bool means_no_file(int code);

// Throws kNoInput with `hint` unless `path` is a folder, read_error() where it may not be entered.
void require_folder(const std::string& path, const std::string& hint);

// Size in bytes of a regular file. Throws as FileReader.
std::uint64_t file_size_bytes(const std::string& path);

// Throws kIo when the mount does not report it.
bool path_exists(const std::string& path);
bool is_folder(const std::string& path);
// Whether all of a file's name follows a POSIX extended regular expression (regex(7)).
bool name_matches(const std::string& name, const char* pattern);

// Creates the folder and its parents, on the disk too. Throws kCannotCreate, kIo; `option` named
// it.
void make_folder(const std::string& path, const std::string& option = "--output");

// Throws as make_folder() where something else has the folder's name or a parent's; makes nothing.
void check_can_be_folder(const std::string& path, const std::string& option = "--output");

// The same as make_folder() for the folder that the file `path` is to be in.
void make_folder_of(const std::string& path, const std::string& option = "--output");

// Free bytes of the file system that holds `path`; nothing when it does not report them.
std::optional<std::uint64_t> free_space_bytes(const std::string& path);

// Throws kIo when clearly less than `needed_bytes` is free in `folder`; `option` named it.
void require_space(const std::string& folder, double needed_bytes, const std::string& option);

// Removes a file or an empty folder; ignores every error.
void remove_file(const std::string& path);

// fsync of a file or folder by path. A file system without fsync (EINVAL, ENOTSUP, ENOSYS) costs
// one warning; a failure throws kIo.
void sync_path(const std::string& path);

// Runs `body`, which writes into a folder that this job could write to before: what cannot be
// created now is an I/O error (the folder or its mount is gone), not a bad choice.
template <class Body>
auto as_io_error(const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCannotCreate) throw;
    throw Error(ErrorKind::kIo, error.what(),
                "fix the mount or restore the folder, then run the same command again");
  }
}

// Writes `path` through `path.tmp`: write -> fsync -> close -> verify -> rename -> fsync of the
// folder. The destructor of an unfinished file removes the temporary one.
class AtomicFile {
 public:
  // Throws kCannotCreate when the temporary file cannot be made.
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(AtomicFile&&) = delete;

  // Throws kIo (disk full, mount gone).
  void write(const void* data, std::size_t size_bytes);
  void write(std::string_view bytes) { write(bytes.data(), bytes.size()); }

  // The temporary file's name, for writers that open by name.
  const std::string& temporary_path() const { return temporary_; }

  // Publishes. `verify` gets the closed temporary file's path and throws to refuse it.
  void commit(const std::function<void(const std::string&)>& verify = {});

 private:
  void sync_and_close();
  std::string path_, temporary_;
  Descriptor file_;
  bool committed_ = false;
};

// A file that grows: what was appended before stays when a write fails.
class AppendFile {
 public:
  // Goes on behind what is there. Throws kCannotCreate; `option` named the file's folder.
  explicit AppendFile(std::string path, const std::string& option = "--output");
  const std::string& path() const { return path_; }
  // Other processes see it when this returns. Throws kIo (disk full, mount gone).
  void append(std::string_view bytes);
  // To the disk. Throws kIo.
  void sync();

 private:
  std::string path_;
  Descriptor file_;
};

// AtomicFile's steps for a file that something else wrote: sync -> verify -> rename -> folder sync.
// Where a rename cannot replace a file (SMB) the old one is `path.old` for a moment; between two
// file systems the file is delivered.
void publish_file(const std::string& temporary, const std::string& path,
                  const std::function<void(const std::string&)>& verify = {});

// Restores `path.old` when a process ended at that moment.
void recover_file(const std::string& path);

// Copies a finished file to another file system: free space -> copy -> sync -> read back and
// compare hashes -> rename. Returns the hash (xxh3). Throws kCannotCreate, kIo.
std::uint64_t deliver_file(const std::string& source, const std::string& path);

// AtomicFile in one call; the written bytes are read back and compared.
void write_file_atomically(const std::string& path, std::string_view bytes);

}  // namespace retina
