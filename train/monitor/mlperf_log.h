// --mllog: the lines that MLPerf Training's tools read (the package mlperf-logging), as its
// benchmark "retinanet" has them: settings, then when epochs and validations began and ended, and
// each AP.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "shared/base/file.h"

namespace retina {

inline constexpr const char* kMlperfMark = ":::MLLOG ";

// What the log has of the run, in its own words (mlperf_logging/mllog/constants.py).
struct MlperfSettings {
  std::string run{};  // its folder, absolute: whose log the file is
  std::uint64_t seed = 0;
  std::int64_t global_batch_size = 0, gradient_accumulation_steps = 1;
  std::int64_t train_samples = 0, eval_samples = 0;
  std::string opt_name{};
  double opt_base_learning_rate = 0, opt_weight_decay = 0;
  double opt_learning_rate_warmup_epochs = 0, opt_learning_rate_warmup_factor = 0;
};

// Whose log the file is, as MlperfSettings::run said; "" where it does not say, or is not there.
std::string mlperf_run_of(const std::string& path);

// Epochs are counted from 1. Where the file cannot be written, a warning says so once and the log
// ends there: the run does not.
class MlperfLog {
 public:
  // Writes the settings between "init_start", the time when this program was loaded, and
  // "init_stop", now, and "run_start"; what the file had goes. `next_epoch`, of a run that
  // continues: goes on where the file begins that epoch, or behind all it has but a "run_stop",
  // which was none; without a file, a warning says what it will lack. The submission's
  // organisation, platform and division are those of the environment (MLPERF_SUBMISSION_ORG,
  // _PLATFORM, _DIVISION), else "reference_implementation" and "open". Throws kCannotCreate, kIo.
  MlperfLog(const std::string& path, const MlperfSettings& settings,
            std::optional<std::int64_t> next_epoch);

  // Nothing for the epoch that the file had begun.
  void begin_epoch(std::int64_t epoch) {
    if (epoch != begun_epoch_) line({.key = "epoch_start", .type = kBegin, .epoch = epoch});
  }
  void end_epoch(std::int64_t epoch) { line({.key = "epoch_stop", .type = kEnd, .epoch = epoch}); }
  void begin_validation(std::int64_t epoch) {
    line({.key = "eval_start", .type = kBegin, .epoch = epoch});
  }
  void end_validation(std::int64_t epoch, double ap);
  // `reached`: the AP that was aimed at; otherwise the run is "aborted".
  void end_run(bool reached) {
    line({.key = "run_stop", .type = kEnd, .status = reached ? "success" : "aborted"});
  }

 private:
  static constexpr const char* kBegin = "INTERVAL_START";
  static constexpr const char* kEnd = "INTERVAL_END";

  struct Event {
    const char* key;
    const char* type = "POINT_IN_TIME";
    std::string value = "null";  // JSON
    std::int64_t epoch = 0;      // 0: of none
    const char* status = nullptr;
    std::int64_t time_ms = 0;  // 0: now
    std::string run = {};
  };
  void line(const Event& event);
  void write(const std::string& text);
  template <class Value>
  void setting(const char* key, const Value& value);

  std::int64_t begun_epoch_ = 0;  // in the file already; 0: none
  AppendFile file_;
  bool is_lost_ = false;
};

}  // namespace retina
