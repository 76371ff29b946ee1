#include "tests/gpu/fake_device/streams.h"

#include <algorithm>

#include "shared/base/cat.h"

namespace retina::fake_device {
namespace {

std::int64_t place_in(const Clock& clock, StreamId stream) {
  const auto found = clock.find(stream);
  return found == clock.end() ? 0 : found->second;
}

void add(const Clock& news, Clock& clock) {
  for (const auto& [stream, place] : news) clock[stream] = std::max(clock[stream], place);
}

std::string problem(const char* what, const Block& block, const Operation& operation,
                    const Operation& earlier) {
  return cat(operation.name, " on stream ", operation.stream, what, block.bytes, " bytes that ",
             earlier.name, " on stream ", earlier.stream, " uses, with no order between them");
}

}  // namespace

Operation Streams::begin(StreamId stream, const char* name) {
  Clock& clock = clocks_[stream];
  add(host_, clock);
  return {.stream = stream, .place = ++clock[stream], .name = name};
}

const Clock& Streams::reached(StreamId stream) {
  return clocks_[stream];
}

void Streams::wait(StreamId stream, const Clock& clock) {
  add(clock, clocks_[stream]);
}

void Streams::seen(const Clock& clock) {
  add(clock, host_);
}

void Streams::seen_all() {
  for (const auto& [stream, clock] : clocks_) add(clock, host_);
}

bool Streams::is_done(const Operation& operation) const {
  return operation.place <= place_in(host_, operation.stream);
}

bool Streams::is_done(const Clock& clock) const {
  return std::all_of(clock.begin(), clock.end(),
                     [&](const auto& one) { return one.second <= place_in(host_, one.first); });
}

bool Streams::comes_before(const Operation& earlier, StreamId stream) {
  return earlier.stream == stream || is_done(earlier) ||
         earlier.place <= place_in(clocks_[stream], earlier.stream);
}

std::string Streams::read(Block& block, const Operation& operation) {
  block.read[operation.stream] = operation;
  if (comes_before(block.written, operation.stream)) return "";
  return problem(" reads ", block, operation, block.written);
}

std::string Streams::write(Block& block, const Operation& operation) {
  std::string text;
  if (!comes_before(block.written, operation.stream)) {
    text = problem(" writes ", block, operation, block.written);
  }
  for (const auto& [stream, reader] : block.read) {
    if (!comes_before(reader, operation.stream)) {
      text = problem(" writes ", block, operation, reader);
    }
  }
  block.written = operation;
  block.read.clear();
  return text;
}

std::string Streams::free(const Block& block) {
  const auto is_safe = [&](const Operation& user) {
    return block.recorded.contains(user.stream) || comes_before(user, block.home);
  };
  const auto text = [&](const Operation& user) {
    return cat(block.bytes, " bytes are freed for stream ", block.home, " while ", user.name,
               " on stream ", user.stream, " uses them");
  };
  if (!is_safe(block.written)) return text(block.written);
  for (const auto& [stream, reader] : block.read) {
    if (!is_safe(reader)) return text(reader);
  }
  return "";
}

}  // namespace retina::fake_device
