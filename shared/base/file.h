// Files: reading whole, and writing so that a crash at any moment leaves the old content or the
// new, never half of it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace retina {

// Whole content of a file. Throws kNoInput (missing, a folder, not readable), kIo midway.
std::string read_file(const std::string& path);

// Size in bytes. Throws kNoInput.
std::uint64_t file_size_bytes(const std::string& path);

bool path_exists(const std::string& path);
bool is_folder(const std::string& path);

// Creates the folder and its parents. Throws kCannotCreate.
void make_folder(const std::string& path);

// Free bytes of the file system that holds `path`; 0 when unknown.
std::uint64_t free_space_bytes(const std::string& path);

// Removes a file; a missing one is no error.
void remove_file(const std::string& path);

// fsync of a file or folder by path. A file system that has no fsync for folders (EINVAL, ENOTSUP)
// is no error; a failed fsync of a file is (kIo).
void sync_path(const std::string& path);

// Writes `path` through `path.tmp`: write -> fsync -> close -> verify -> rename -> fsync of the
// folder. The destructor of an unfinished file removes the temporary one.
class AtomicFile {
 public:
  // Throws kCannotCreate when the temporary file cannot be made.
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Throws kIo (disk full, mount gone).
  void write(const void* data, std::size_t size_bytes);
  void write(std::string_view bytes) { write(bytes.data(), bytes.size()); }

  // The temporary file's name, for writers that open by name.
  const std::string& temporary_path() const { return temporary_; }

  // Publishes. `verify` gets the closed temporary file's path and throws to refuse it.
  void commit(const std::function<void(const std::string&)>& verify = {});

 private:
  void close_file();
  std::string path_, temporary_;
  int descriptor_ = -1;
  bool committed_ = false;
};

// The same steps for a file that something else wrote: sync -> verify -> rename -> folder sync.
void publish_file(const std::string& temporary, const std::string& path,
                  const std::function<void(const std::string&)>& verify = {});

// AtomicFile in one call; the written bytes are read back and compared.
void write_file_atomically(const std::string& path, std::string_view bytes);

// An exclusive lock of the folder for this process's life (flock on `.lock` inside). Throws kConfig
// when another process holds it; a file system without locks costs one warning.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace retina
