// One progress line: redrawn in place on a terminal, a plain line every few seconds otherwise.
// Goes to stderr: stdout belongs to results.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace retina {

class Progress {
 public:
  // Starts the line with `label` ("packing"); `total` 0 means unknown; `unit` names the counted
  // things.
  Progress(std::string label, std::int64_t total, std::string unit);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Shows `done` of the total; `detail` is appended ("loss 0.42"). Cheap to call often.
  void update(std::int64_t done, const std::string& detail = "");
  void set_total(std::int64_t total) { total_ = total; }
  // Draws the last state and ends the line.
  void finish();
  // Clears the drawn line, so that a log line can be written.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  std::string line(const std::string& detail) const;
  void draw(const std::string& detail);
  std::string label_, unit_, detail_;
  std::int64_t total_, done_ = 0, first_ = -1, drawn_done_ = -1;
  Clock::time_point start_ = Clock::now(), last_draw_;
  bool terminal_, drawn_ = false, finished_ = false;
};

}  // namespace retina
