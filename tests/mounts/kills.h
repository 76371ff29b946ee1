// Killing a program again and again: at a random time, before a random call that changes the disk,
// or after half of it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/random.h"

namespace retina {

double seconds_now();

struct KillOptions {
  int default_count = 10;  // unless $RETINA_KILLS says otherwise
};

// What a calm run takes.
struct CalmRun {
  long calls = 0;  // that change the disk
  double seconds = 0;
};

class Kills {
 public:
  explicit Kills(const KillOptions& options);

  void calibrate(const CalmRun& calm) { calm_ = calm; }

  // True until this part of all kills has been made.
  bool wanted(double part) const { return total() < part * count_; }

  // Runs the command (a program of build/bin) and kills it at one of these moments, unless it ends
  // before. `rule` narrows the calls ("path=/out"). Returns the moment in words.
  std::string kill(const std::vector<std::string>& command, const std::string& rule);
  bool last_was_killed() const { return killed_; }

  // Throws dice: shall the continued run be killed too?
  bool one_more_before_the_end();

  std::uint64_t seed() const { return random_.seed; }
  // How often it was killed where.
  std::string table() const;

 private:
  struct Count {
    const char* moment;
    int killed = 0, ended_before = 0;
  };
  double draw() { return random_.unit(drawn_++); }
  int total() const;

  int count_;
  CalmRun calm_{};
  RandomStream random_;
  std::uint64_t drawn_ = 0;
  bool killed_ = false;
  std::array<Count, 3> counts_{{{"at a random time"},
                                {"before a call that changes the disk"},
                                {"after such a call, a write half done"}}};
};

}  // namespace retina
