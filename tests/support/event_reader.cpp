#include "tests/support/event_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <stdexcept>
#include <string_view>

#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/shard/little_endian.h"

namespace retina {
namespace {

void check_crc(std::string_view bytes, std::uint32_t masked) {
  // record_reader.h: Unmask.
  const std::uint32_t rotated = masked - 0xa282ead8U;
  if ((rotated >> 17 | rotated << 15) != crc32c(bytes)) throw std::runtime_error("bad checksum");
}

// Calls `use(number of the field, its integer or bits, its bytes)` for each field of a message.
template <class F>
void for_fields(std::string_view message, const F& use) {
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(message.at(at++));
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < message.size()) {
    const std::uint64_t key = varint();
    const auto field = static_cast<int>(key >> 3);
    switch (key & 7) {
      case 0:
        use(field, varint(), std::string_view());
        break;
      case 1:
        use(field, get<std::uint64_t>(message, at), std::string_view());
        at += 8;
        break;
      case 5:
        use(field, get<std::uint32_t>(message, at), std::string_view());
        at += 4;
        break;
      case 2: {
        const std::size_t size = varint();
        use(field, std::uint64_t{0}, message.substr(at, size));
        at += size;
        break;
      }
      default:
        throw std::runtime_error("unknown wire type");
    }
  }
}

void read_value(std::string_view message, ReadEvent& event) {
  std::string tag;
  EventImage image;
  for_fields(message, [&](int field, std::uint64_t number, std::string_view bytes) {
    if (field == 1) tag = bytes;
    if (field == 2) event.scalars[tag] = std::bit_cast<float>(static_cast<std::uint32_t>(number));
    if (field == 4) {
      for_fields(bytes, [&](int part, std::uint64_t pixels, std::string_view jpeg) {
        if (part == 1) image.height = static_cast<std::int64_t>(pixels);
        if (part == 2) image.width = static_cast<std::int64_t>(pixels);
        if (part == 4) image.jpeg = jpeg;
      });
    }
  });
  if (!image.jpeg.empty()) event.images[tag] = image;
}

ReadEvent parse(std::string_view message) {
  ReadEvent event;
  for_fields(message, [&](int field, std::uint64_t number, std::string_view bytes) {
    if (field == 1) event.wall_time = std::bit_cast<double>(number);
    if (field == 2) event.step = static_cast<std::int64_t>(number);
    if (field == 3) event.file_version = bytes;
    if (field == 5) {
      for_fields(bytes,
                 [&](int, std::uint64_t, std::string_view value) { read_value(value, event); });
    }
    if (field == 7) {
      for_fields(bytes, [&](int part, std::uint64_t status, std::string_view) {
        event.starts_session = part == 1 && status == 1;
      });
    }
  });
  return event;
}

}  // namespace

std::vector<ReadEvent> read_events(const std::string& path) {
  const std::string text = read_file(path);
  std::vector<ReadEvent> events;
  std::string_view rest = text;
  while (rest.size() >= 16) {
    const auto size = get<std::uint64_t>(rest, 0);
    check_crc(rest.substr(0, 8), get<std::uint32_t>(rest, 8));
    if (rest.size() < size + 16) break;
    const std::string_view data = rest.substr(12, size);
    check_crc(data, get<std::uint32_t>(rest, 12 + size));
    events.push_back(parse(data));
    rest.remove_prefix(size + 16);
  }
  return events;
}

std::vector<std::string> event_files(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& item : std::filesystem::directory_iterator(folder)) {
    paths.push_back(item.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::map<std::string, std::map<std::int64_t, float>> shown_scalars(const std::string& folder) {
  std::map<std::string, std::map<std::int64_t, float>> shown;
  bool has_started = false;
  for (const std::string& path : event_files(folder)) {
    for (const ReadEvent& event : read_events(path)) {
      if (event.starts_session && has_started) {
        for (auto& [tag, steps] : shown) steps.erase(steps.lower_bound(event.step), steps.end());
      }
      has_started = has_started || event.starts_session;
      for (const auto& [tag, value] : event.scalars) {
        auto& steps = shown[tag];
        EXPECT_TRUE(steps.empty() || steps.rbegin()->first < event.step) << tag << event.step;
        steps[event.step] = value;
      }
    }
  }
  return shown;
}

}  // namespace retina
