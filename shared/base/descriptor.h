// File descriptors that close themselves, and system calls that a signal may interrupt.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

namespace retina {

// Calls `call` until no signal interrupts it (on FUSE and NFS mounts they do). Returns its result;
// if it is below 0, errno has the reason.
template <class Call>
auto retried(const Call& call) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

// Owns the descriptor of a file or a socket; -1 means none.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  // Calls open(2); on failure the descriptor is -1 and errno has the reason.
  Descriptor(const std::string& path, int flags)
      : fd_(retried([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); })) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace retina
