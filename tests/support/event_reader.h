// TensorBoard's event files, read back without the code that writes them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace retina {

struct EventImage {
  std::int64_t width = 0, height = 0;
  std::string jpeg = {};
};

struct ReadEvent {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string file_version = {};
  bool starts_session = false;
  std::map<std::string, float> scalars = {};
  std::map<std::string, EventImage> images = {};
};

// The events of a file, to the record that a kill cut off. Throws where a checksum is wrong.
std::vector<ReadEvent> read_events(const std::string& path);

// The event files of a folder, in the order in which TensorBoard reads them.
std::vector<std::string> event_files(const std::string& folder);

// What TensorBoard shows of a folder: tag -> step -> value. From the second start of a session on,
// it drops what it has of that step and later ones. Fails the test where a tag has a step twice or
// steps that do not ascend.
std::map<std::string, std::map<std::int64_t, float>> shown_scalars(const std::string& folder);

}  // namespace retina
