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

// Reads an input file; nothing else opens one. Accepts only regular files, because opening or
// reading a pipe, a device or a file of /proc may wait without end. Throws kNoInput (missing, not
// readable, not a regular file), kIo (the mount).
class FileReader {
 public:
  explicit FileReader(const std::string& path);

  // Fills `buffer`, less only at the end of the file; returns the number of bytes read.
  std::size_t read(char* buffer, std::size_t size_bytes);
  // Sets where the next read() begins, counted from the start of the file. Throws kIo.
  void seek(std::uint64_t offset_bytes);
  // Reads as read() does, from `offset_bytes` on, without moving the position of read().
  // Thread-safe.
  std::size_t read_at(std::uint64_t offset_bytes, char* buffer, std::size_t size_bytes) const;
  // Returns the size that the file system reports; 0 if it reports none.
  std::size_t size_bytes() const { return size_bytes_; }
  // Returns the descriptor, which stays open as long as this object lives.
  int descriptor() const { return file_.get(); }

 private:
  std::string path_;
  Descriptor file_;
  std::size_t size_bytes_ = 0;
};

// Returns the whole content of a file. Throws as FileReader, and kUnavailable if it does not fit
// into memory.
std::string read_file(const std::string& path);

// Upper limit for texts other than a data set's table.
inline constexpr std::uint64_t kMostTextBytes = std::uint64_t{256} << 20;

// Returns the whole content of a text. Throws as read_file, and kData if it has more than
// `max_bytes`.
std::string read_text(const std::string& path, std::uint64_t max_bytes = kMostTextBytes);

// Returns the file's first bytes, `max_bytes` at most. Throws as read_file.
std::string read_start(const std::string& path, std::size_t max_bytes);

// Returns the file's bytes from `offset_bytes` on, `max_bytes` at most; none beyond its end. Throws
// as read_file.
std::string read_part(const std::string& path, std::uint64_t offset_bytes, std::size_t max_bytes);

// Passes the file's bytes to `take`, a piece at a time. Throws as read_file.
void read_pieces(const std::string& path, const std::function<void(std::string_view)>& take);

// Returns the error for a read that failed with `code` (an errno): kNoInput if the file is missing
// or this user may not read it, kUnavailable if this process is out of resources, else kIo: the
// mount.
Error read_error(const std::string& path, int code);
// Returns true if `error` is a read_error() because this user may not read the file.
bool is_denied(const Error& error);

// Returns true if an errno says that no file has the name, so that neither the mount nor a
// permission is at fault.
bool means_no_file(int code);

// Throws kNoInput with `hint` unless `path` is a folder, read_error() if it may not be entered.
void require_folder(const std::string& path, const std::string& hint);

// Returns the size of a regular file in bytes. Throws as FileReader.
std::uint64_t file_size_bytes(const std::string& path);

// Returns true if something has this name. Throws kIo if the mount does not report it.
bool path_exists(const std::string& path);
bool is_folder(const std::string& path);
// Returns true if the whole name matches a POSIX extended regular expression (regex(7)).
bool name_matches(const std::string& name, const char* pattern);

// Creates the folder and its parents, and syncs them to the disk. Throws kCannotCreate, kIo; errors
// name `option`, which gave the path.
void make_folder(const std::string& path, const std::string& option = "--output");

// Throws as make_folder() if something other than a folder has the name of the folder or of a
// parent; creates nothing.
void check_can_be_folder(const std::string& path, const std::string& option = "--output");

// Calls make_folder() for the folder that the file `path` will be in.
void make_folder_of(const std::string& path, const std::string& option = "--output");

// Returns the free bytes of the file system that holds `path`; nothing if it does not report them.
std::optional<std::uint64_t> free_space_bytes(const std::string& path);

// Throws kIo if clearly less than `needed_bytes` is free in `folder`, which `option` gave.
void require_space(const std::string& folder, double needed_bytes, const std::string& option);

// Removes a file or an empty folder; ignores every error.
void remove_file(const std::string& path);

// Calls fsync for a file or folder by path. A file system without fsync (EINVAL, ENOTSUP, ENOSYS)
// costs one warning; a failure throws kIo.
void sync_path(const std::string& path);

// Runs `body`, which writes into a folder that this job could write to before: a kCannotCreate
// becomes an I/O error (the folder or its mount is gone), since the user's choice was right.
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
  // Throws kCannotCreate if the temporary file cannot be made.
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(AtomicFile&&) = delete;

  // Appends to the temporary file. Throws kIo (disk full, mount gone).
  void write(const void* data, std::size_t size_bytes);
  void write(std::string_view bytes) { write(bytes.data(), bytes.size()); }

  // Publishes the file. `verify` gets the closed temporary file's path and throws to refuse it.
  void commit(const std::function<void(const std::string&)>& verify = {});

 private:
  void sync_and_close();
  std::string path_, temporary_;
  Descriptor file_;
  bool committed_ = false;
};

// Appends to a file: what was appended before stays if a write fails.
class AppendFile {
 public:
  // Continues after the present content. Throws kCannotCreate; `option` gave the file's folder.
  explicit AppendFile(std::string path, const std::string& option = "--output");
  const std::string& path() const { return path_; }
  // Appends `bytes`; other processes see them when this returns. Throws kIo (disk full, mount
  // gone).
  void append(std::string_view bytes);
  // Syncs to the disk. Throws kIo.
  void sync();

 private:
  std::string path_;
  Descriptor file_;
};

// Performs AtomicFile's steps for a file that something else wrote: sync -> verify -> rename ->
// folder sync. Where a rename cannot replace a file (SMB) the old one is `path.old` for a moment;
// between two file systems the file is delivered.
void publish_file(const std::string& temporary, const std::string& path,
                  const std::function<void(const std::string&)>& verify = {});

// Restores `path.old` if a process ended during that moment.
void recover_file(const std::string& path);

// Copies a finished file to another file system: free space -> copy -> sync -> read back and
// compare hashes -> rename. Returns the hash (xxh3). Throws kCannotCreate, kIo.
std::uint64_t deliver_file(const std::string& source, const std::string& path);

// Writes a file with AtomicFile in one call; the written bytes are read back and compared.
void write_file_atomically(const std::string& path, std::string_view bytes);

}  // namespace retina
