// Messages between the watch threads of the ranks over TCP: frames of a 12-byte header and a
// payload of fixed structs, little-endian, between processes of one build. A peer without the job's
// token is cut off; so is one that sends anything but frames. Nothing here blocks longer than its
// limit.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "shared/base/descriptor.h"
#include "shared/comm/activity.h"

namespace retina {

enum class FrameType : std::uint16_t {
  kHello = 1,    // spoke: Greeting
  kWelcome = 2,  // hub: Greeting
  kState = 3,    // spoke: RankState
  kHub = 4,      // hub: HubState
  kEnd = 5,      // to all: the job ends, the reason has been reported; EndNotice
  kAllLeft = 6,  // hub: every rank has ended its work; empty
};

struct Greeting {
  std::uint64_t token = 0;  // drawn by rank 0, sent through the communicator
  std::int32_t rank = 0;
  std::int32_t size = 0;
};

// The hub's own state, and the ranks that report if the hub is lost.
struct HubState {
  RankState state{};
  std::int32_t first_heard = 0;      // the lowest rank heard from within the limit; 0: none
  std::int32_t first_elsewhere = 0;  // the lowest of those on other nodes than the hub's
};

struct EndNotice {
  std::int32_t exit_code = 0;
  // Time that the launcher has to end the receiver before it does so itself.
  std::int32_t wait_ms = 0;
  std::int32_t is_cut_off = 0;  // 1: a node is cut off; a remaining launcher then waits for it
};

struct Frame {
  FrameType type = FrameType::kHello;
  std::string payload;

  // Returns the payload as one T; nothing if its size differs.
  template <class T>
  std::optional<T> as() const {
    static_assert(std::is_trivially_copyable_v<T>);
    if (payload.size() != sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(static_cast<void*>(&value), payload.data(), sizeof(T));
    return value;
  }
};

std::string encode(FrameType type, std::string_view payload);

template <class T>
requires std::is_trivially_copyable_v<T> std::string encode(FrameType type, const T& value) {
  return encode(type, std::string_view(reinterpret_cast<const char*>(&value), sizeof(T)));
}

// Returns the state in `frame`, made safe to use: numbers are finite, texts end. Nothing if it is
// not one of `rank`'s, or of the hub's.
std::optional<RankState> decode_state(const Frame& frame, int rank);
std::optional<HubState> decode_hub_state(const Frame& frame);

// Extracts frames from a stream of bytes.
class FrameReader {
 public:
  void add(const char* data, std::size_t size) { buffer_.append(data, size); }
  // Returns the next whole frame. `broken()` afterwards: the stream holds something else.
  std::optional<Frame> next();
  bool broken() const { return broken_; }

 private:
  std::string buffer_;
  bool broken_ = false;
};

// A listening socket on a free port of all interfaces, and that port. Opening one throws
// kUnavailable.
struct Listener {
  Descriptor socket{};
  std::uint16_t port = 0;
};
Listener listen_anywhere();

// Returns this node's IPv4 addresses: those of its interfaces, then 127.0.0.1.
std::vector<std::string> own_addresses();

// Connects within `limit_s`; returns nothing if that fails.
std::optional<Descriptor> connect_to(const std::string& address, std::uint16_t port,
                                     double limit_s);

// Connection to one peer: frames out and in over a non-blocking socket.
class Connection {
 public:
  explicit Connection(Descriptor socket);

  int fd() const { return socket_.get(); }
  // Returns true if the peer has closed, or broke the protocol; nothing more will come.
  bool ended() const { return ended_; }
  bool has_unsent() const { return !out_.empty(); }

  // Reads the bytes that have arrived.
  void read();
  // Returns the whole frames among them.
  std::vector<Frame> frames();
  // Does both.
  std::vector<Frame> receive();
  // Sends as much as fits; `flush` sends the rest.
  void send(const std::string& frame);
  // Sends a heartbeat, or drops it while an older one is still unsent: a stopped peer must not fill
  // memory.
  void send_if_idle(const std::string& frame);
  void flush();
  // Announces that nothing more will be sent.
  void finish_sending();

 private:
  Descriptor socket_;
  FrameReader reader_;
  std::string out_;
  bool ended_ = false;
};

}  // namespace retina
