#include "shared/watch/protocol.h"

#include <algorithm>
#include <cmath>

namespace retina {
namespace {

constexpr std::uint32_t kMagic = 0x48435752;  // "RWCH"
constexpr std::uint16_t kVersion = 1;
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

}  // namespace

std::string encode(FrameType type, std::string_view payload) {
  FrameHeader header;
  header.type = static_cast<std::uint16_t>(type);
  header.payload_bytes = static_cast<std::uint32_t>(payload.size());
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  bytes += payload;
  return bytes;
}

std::string encode_statuses(const StatusTable& table) {
  std::string payload(reinterpret_cast<const char*>(&table.hub), sizeof(RankState));
  payload.append(reinterpret_cast<const char*>(table.others.data()),
                 table.others.size() * sizeof(PeerStatus));
  return encode(FrameType::kTable, payload);
}

std::optional<StatusTable> decode_statuses(const Frame& frame) {
  if (frame.type != FrameType::kTable || frame.payload.size() < sizeof(RankState)) {
    return std::nullopt;
  }
  const std::size_t rest = frame.payload.size() - sizeof(RankState);
  if (rest % sizeof(PeerStatus) != 0) return std::nullopt;
  StatusTable table;
  std::memcpy(static_cast<void*>(&table.hub), frame.payload.data(), sizeof(RankState));
  make_safe(table.hub);
  table.others.resize(rest / sizeof(PeerStatus));
  if (rest != 0) {
    std::memcpy(static_cast<void*>(table.others.data()), frame.payload.data() + sizeof(RankState),
                rest);
  }
  return table;
}

std::optional<RankState> decode_state(const Frame& frame, int rank) {
  if (frame.type != FrameType::kState) return std::nullopt;
  std::optional<RankState> state = frame.as<RankState>();
  if (!state || state->rank != rank) return std::nullopt;
  make_safe(*state);
  return state;
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

}  // namespace retina
