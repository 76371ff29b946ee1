#include "train/report/event_file.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <system_error>

#include "shared/base/cat.h"
#include "shared/base/hash.h"
#include "shared/base/host.h"
#include "shared/base/log.h"
#include "shared/image/jpeg.h"
#include "shared/shard/little_endian.h"

namespace retina {
namespace {

namespace fs = std::filesystem;

// A message in the wire format of protocol buffers, field by field.
class Message {
 public:
  Message& number(int field, std::int64_t value) {
    begin(field, 0);
    return varint(static_cast<std::uint64_t>(value));
  }
  Message& f64(int field, double value) {
    begin(field, 1);
    put(bytes_, value);
    return *this;
  }
  Message& f32(int field, float value) {
    begin(field, 5);
    put(bytes_, std::bit_cast<std::uint32_t>(value));
    return *this;
  }
  // Adds text, bytes or another message.
  Message& text(int field, std::string_view value) {
    begin(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void begin(int field, unsigned wire_type) {
    varint(static_cast<std::uint64_t>(field) << 3 | wire_type);
  }
  Message& varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
    return *this;
  }
  std::string bytes_;
};

// Begins an Event. Its fields 1 and 2 are wall_time and step, 3 file_version, 5 summary, 7
// session_log.
Message begun_event(std::int64_t step) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return Message().f64(1, now.count()).number(2, step);
}

std::uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8U;
}

// Returns a name in TensorBoard's own form, with the seconds since 1970 in ten digits. TensorBoard
// reads the files of a folder in the order of their names; the new one comes last even if this
// machine's clock is slow.
std::string next_file(const std::string& folder) {
  const std::string begin = "events.out.tfevents.";
  std::int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(
                             std::chrono::system_clock::now().time_since_epoch())
                             .count();
  std::error_code ignored;
  for (const auto& item : fs::directory_iterator(folder, ignored)) {
    const std::string name = item.path().filename().string();
    if (!name_matches(name, "events\\.out\\.tfevents\\.[0-9]{10}\\..*")) continue;
    std::int64_t other = 0;
    std::from_chars(name.data() + begin.size(), name.data() + begin.size() + 10, other);
    seconds = std::max(seconds, other + 1);
  }
  return cat(folder, "/", begin, seconds, ".", host_name(), ".", ::getpid());
}

}  // namespace

EventFile::EventFile(const std::string& folder, std::int64_t step)
    : file_(next_file(folder), "--tensorboard") {
  write(begun_event(0).text(3, "brain.Event:2").bytes());
  // SessionLog.START: in all files of a folder but the first, it makes TensorBoard drop this step
  // and later ones.
  write(begun_event(step + 1).text(7, Message().number(1, 1).bytes()).bytes());
}

void EventFile::add_scalars(std::int64_t step, const Scalars& scalars) {
  Message summary;
  for (const auto& [tag, value] : scalars) {
    // Summary.value {tag, simple_value}.
    summary.text(1, Message().text(1, tag).f32(2, static_cast<float>(value)).bytes());
  }
  write(begun_event(step).text(5, summary.bytes()).bytes());
}

void EventFile::add_images(std::int64_t step, const Gallery& gallery) {
  // Summary.value {tag, image {height, width, colorspace RGB, bytes}}.
  JpegDecoder decoder;
  for (std::size_t i = 0; i < gallery.images.size(); ++i) {
    const std::string& jpeg = gallery.images[i].jpeg;
    int width = 0, height = 0;
    decoder.read_size(jpeg, width, height);
    const Message image = Message().number(1, height).number(2, width).number(3, 3).text(4, jpeg);
    const Message value = Message().text(1, cat("validation/image ", i + 1)).text(4, image.bytes());
    write(begun_event(step).text(5, Message().text(1, value.bytes()).bytes()).bytes());
  }
}

void EventFile::sync() {
  file_.sync();
  if (is_missing_ || path_exists(file_.path())) return;
  is_missing_ = true;
  log_warning(file_.path(),
              ": has been removed, TensorBoard will not show this run's steps from here on; "
              "metrics.jsonl has them");
}

void EventFile::write(std::string_view event) {
  std::string record;
  put(record, std::uint64_t{event.size()});
  put(record, masked_crc(record));
  record += event;
  put(record, masked_crc(event));
  file_.append(record);
}

}  // namespace retina
