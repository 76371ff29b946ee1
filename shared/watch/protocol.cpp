#include "shared/watch/protocol.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include "shared/base/error.h"

namespace retina {
namespace {

constexpr std::uint32_t kMagic = 0x48435752;  // "RWCH"
constexpr std::uint16_t kVersion = 2;
constexpr std::uint32_t kMaxPayloadBytes = 1 << 20;

struct FrameHeader {
  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  std::uint16_t type = 0;
  std::uint32_t payload_bytes = 0;
};
static_assert(sizeof(FrameHeader) == 12);

double sane_seconds(double value) {
  return std::isfinite(value) ? std::clamp(value, 0.0, 1e9) : 0.0;
}

void make_safe(RankState& state) {
  for (double* seconds : {&state.in_phase_s, &state.in_collective_s, &state.quiet_s,
                          &state.excused_s, &state.median_step_s}) {
    *seconds = sane_seconds(*seconds);
  }
  for (Entered& entered : state.recent) entered.operation.label.back() = '\0';
  for (Entered& entered : state.marks) entered.operation.label.back() = '\0';
}

constexpr int kSocketType = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

struct sockaddr_in address_of(in_addr_t address, std::uint16_t port) {
  struct sockaddr_in result {};
  result.sin_family = AF_INET;
  result.sin_port = htons(port);
  result.sin_addr.s_addr = address;
  return result;
}

}  // namespace

std::string encode(FrameType type, std::string_view payload) {
  FrameHeader header;
  header.type = static_cast<std::uint16_t>(type);
  header.payload_bytes = static_cast<std::uint32_t>(payload.size());
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  bytes += payload;
  return bytes;
}

std::optional<RankState> decode_state(const Frame& frame, int rank) {
  if (frame.type != FrameType::kState) return std::nullopt;
  std::optional<RankState> state = frame.as<RankState>();
  if (!state || state->rank != rank) return std::nullopt;
  make_safe(*state);
  return state;
}

std::optional<HubState> decode_hub_state(const Frame& frame) {
  if (frame.type != FrameType::kHub) return std::nullopt;
  std::optional<HubState> hub = frame.as<HubState>();
  if (hub) make_safe(hub->state);
  return hub;
}

std::optional<Frame> FrameReader::next() {
  if (broken_ || buffer_.size() < sizeof(FrameHeader)) return std::nullopt;
  FrameHeader header;
  std::memcpy(&header, buffer_.data(), sizeof(header));
  if (header.magic != kMagic || header.version != kVersion ||
      header.payload_bytes > kMaxPayloadBytes) {
    broken_ = true;
    buffer_.clear();
    return std::nullopt;
  }
  const std::size_t whole = sizeof(header) + header.payload_bytes;
  if (buffer_.size() < whole) return std::nullopt;
  Frame frame{.type = static_cast<FrameType>(header.type),
              .payload = buffer_.substr(sizeof(header), header.payload_bytes)};
  buffer_.erase(0, whole);
  return frame;
}

Listener listen_anywhere() {
  Listener listener{.socket = Descriptor(::socket(AF_INET, kSocketType, 0))};
  struct sockaddr_in address = address_of(htonl(INADDR_ANY), 0);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<struct sockaddr*>(&address);
  if (!listener.socket || ::bind(listener.socket.get(), generic, size) != 0 ||
      ::listen(listener.socket.get(), SOMAXCONN) != 0 ||
      ::getsockname(listener.socket.get(), generic, &size) != 0) {
    throw Error(ErrorKind::kUnavailable,
                cat("no TCP port to watch the ranks: ", std::strerror(errno)));
  }
  listener.port = ntohs(address.sin_port);
  return listener;
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> result;
  struct ifaddrs* list = nullptr;
  if (::getifaddrs(&list) == 0) {
    for (const struct ifaddrs* item = list; item != nullptr; item = item->ifa_next) {
      if (item->ifa_addr == nullptr || item->ifa_addr->sa_family != AF_INET) continue;
      if ((item->ifa_flags & IFF_UP) == 0 || (item->ifa_flags & IFF_LOOPBACK) != 0) continue;
      std::array<char, INET_ADDRSTRLEN> text{};
      const auto* address = reinterpret_cast<const struct sockaddr_in*>(item->ifa_addr);
      ::inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size());
      result.emplace_back(text.data());
    }
    ::freeifaddrs(list);
  }
  result.emplace_back("127.0.0.1");
  return result;
}

std::optional<Descriptor> connect_to(const std::string& address, std::uint16_t port,
                                     double limit_s) {
  Descriptor socket(::socket(AF_INET, kSocketType, 0));
  struct sockaddr_in target = address_of(0, port);
  if (!socket || ::inet_pton(AF_INET, address.c_str(), &target.sin_addr) != 1) return std::nullopt;
  if (::connect(socket.get(), reinterpret_cast<struct sockaddr*>(&target), sizeof(target)) == 0) {
    return socket;
  }
  if (errno != EINPROGRESS) return std::nullopt;
  struct pollfd wait {
    .fd = socket.get(), .events = POLLOUT, .revents = 0
  };
  int code = 0;
  socklen_t size = sizeof(code);
  if (::poll(&wait, 1, static_cast<int>(limit_s * 1e3)) != 1 ||
      ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &code, &size) != 0 || code != 0) {
    return std::nullopt;
  }
  return socket;
}

Connection::Connection(Descriptor socket) : socket_(std::move(socket)) {
  const int on = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

void Connection::read() {
  std::array<char, 16384> buffer;
  while (!ended_) {
    const ssize_t size = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (size > 0) {
      reader_.add(buffer.data(), static_cast<std::size_t>(size));
      if (static_cast<std::size_t>(size) < buffer.size()) break;  // nothing more to read
    } else if (size < 0 && errno == EINTR) {
      continue;
    } else {
      if (size == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) ended_ = true;
      break;
    }
  }
}

std::vector<Frame> Connection::frames() {
  std::vector<Frame> frames;
  while (auto frame = reader_.next()) frames.push_back(std::move(*frame));
  if (reader_.broken()) ended_ = true;
  return frames;
}

std::vector<Frame> Connection::receive() {
  read();
  return frames();
}

void Connection::send(const std::string& frame) {
  if (ended_) return;
  out_ += frame;
  flush();
}

void Connection::send_if_idle(const std::string& frame) {
  flush();
  if (out_.empty()) send(frame);
}

void Connection::flush() {
  while (!out_.empty()) {
    const ssize_t size = ::send(socket_.get(), out_.data(), out_.size(), MSG_NOSIGNAL);
    if (size > 0) {
      out_.erase(0, static_cast<std::size_t>(size));
    } else if (size < 0 && errno == EINTR) {
      continue;
    } else {
      // A dead peer is found by reading: its last message must not be lost.
      if (size < 0 && errno != EAGAIN && errno != EWOULDBLOCK) out_.clear();
      break;
    }
  }
}

void Connection::finish_sending() {
  ::shutdown(socket_.get(), SHUT_WR);
}

}  // namespace retina
