// TCP for the watch threads: nothing here blocks longer than it is told to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/watch/protocol.h"

namespace retina {

// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release();

 private:
  int fd_;
};

// A listening socket on a free port of all interfaces, and that port. Throws kUnavailable.
struct Listener {
  Descriptor socket{};
  std::uint16_t port = 0;
};
Listener listen_anywhere();

// This node's IPv4 addresses: those of its interfaces, then 127.0.0.1.
std::vector<std::string> own_addresses();

// Connects within `limit_s`; nothing when that fails.
std::optional<Descriptor> connect_to(const std::string& address, std::uint16_t port,
                                     double limit_s);

// One peer: frames out and in over a non-blocking socket.
class Connection {
 public:
  explicit Connection(Descriptor socket);

  int fd() const { return socket_.get(); }
  // The peer has closed, or broke the protocol; nothing more will come.
  bool ended() const { return ended_; }
  bool has_unsent() const { return !out_.empty(); }

  // Reads what has come and returns the whole frames of it.
  std::vector<Frame> receive();
  // Sends as much as fits; the rest goes with `flush`.
  void send(const std::string& frame);
  // A heartbeat: dropped while an older one is still unsent, for a stopped peer must not fill
  // memory.
  void send_if_idle(const std::string& frame);
  void flush();
  // Says that nothing more will be sent.
  void finish_sending();

 private:
  Descriptor socket_;
  FrameReader reader_;
  std::string out_;
  bool ended_ = false;
};

}  // namespace retina
