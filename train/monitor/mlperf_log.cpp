#include "train/monitor/mlperf_log.h"

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/base/log.h"

namespace retina {
namespace {

std::int64_t now_ms() {
  using std::chrono::system_clock, std::chrono::milliseconds;
  return std::chrono::duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

const std::int64_t kLoadedMs = now_ms();

std::string from_environment(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

// What a log has of a run that goes on with this epoch, with whole lines alone.
struct Kept {
  std::string text{};
  std::int64_t begun_epoch = 0;  // the last line begins it; 0: it does not
};
Kept kept_of(const std::string& log, std::int64_t next_epoch) {
  Kept kept;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line) && !lines.eof();) {
    const auto has = [&](const std::string& member) {
      return line.find(member) != std::string::npos;
    };
    if (has(R"("key":"run_stop")")) continue;
    kept.text += line + "\n";
    if (has(R"("key":"epoch_start")") && has(cat(R"("epoch_num":)", next_epoch, "}"))) {
      kept.begun_epoch = next_epoch;
      break;
    }
  }
  return kept;
}

// Leaves of the file what a run goes on from; returns the epoch that it has begun.
std::int64_t prepare(const std::string& path, std::optional<std::int64_t> next_epoch) {
  if (!path_exists(path)) return 0;
  if (!next_epoch) {
    remove_file(path);
    return 0;
  }
  const Kept kept = kept_of(read_file(path), *next_epoch);
  write_file_atomically(path, kept.text);
  return kept.begun_epoch;
}

}  // namespace

std::string mlperf_run_of(const std::string& path) {
  if (!path_exists(path)) return "";
  const std::string text = read_file(path);
  if (!text.starts_with(kMlperfMark)) return "";
  const std::size_t begin = std::string_view(kMlperfMark).size();
  try {
    const JsonFile line = JsonFile::parse(text.substr(begin, text.find('\n') - begin), path);
    const JsonView metadata = line.root().at("metadata");
    return metadata.has("run") ? metadata.at("run").as_string() : "";
  } catch (const Error&) {
    return "";
  }
}

MlperfLog::MlperfLog(const std::string& path, const MlperfSettings& settings,
                     std::optional<std::int64_t> next_epoch)
    : begun_epoch_(prepare(path, next_epoch)), file_(path, "--mllog") {
  if (next_epoch && file_size_bytes(path) > 0) return;
  if (next_epoch) {
    log_warning("--mllog ", path, ": begins in the middle of the run; what came before is missing");
  }
  line({.key = "init_start", .type = kBegin, .time_ms = kLoadedMs, .run = settings.run});
  setting("cache_clear", true);
  const char* const reference = "reference_implementation";
  setting("submission_benchmark", "retinanet");
  setting("submission_division", from_environment("MLPERF_SUBMISSION_DIVISION", "open"));
  setting("submission_org", from_environment("MLPERF_SUBMISSION_ORG", reference));
  setting("submission_platform", from_environment("MLPERF_SUBMISSION_PLATFORM", reference));
  setting("submission_status", "onprem");
  setting("seed", settings.seed);
  setting("global_batch_size", settings.global_batch_size);
  setting("gradient_accumulation_steps", settings.gradient_accumulation_steps);
  setting("train_samples", settings.train_samples);
  setting("eval_samples", settings.eval_samples);
  setting("opt_name", settings.opt_name);
  setting("opt_base_learning_rate", settings.opt_base_learning_rate);
  setting("opt_weight_decay", settings.opt_weight_decay);
  setting("opt_learning_rate_warmup_epochs", settings.opt_learning_rate_warmup_epochs);
  setting("opt_learning_rate_warmup_factor", settings.opt_learning_rate_warmup_factor);
  line({.key = "init_stop", .type = kEnd});
  line({.key = "run_start", .type = kBegin});
}

void MlperfLog::end_validation(std::int64_t epoch, double ap) {
  JsonWriter value;
  value.value(std::isfinite(ap) ? ap : 0.0);
  line({.key = "eval_accuracy", .value = value.text(), .epoch = epoch});
  line({.key = "eval_stop", .type = kEnd, .epoch = epoch});
}

template <class Value>
void MlperfLog::setting(const char* key, const Value& value) {
  JsonWriter json;
  json.value(value);
  line({.key = key, .value = json.text()});
}

// The members and their order as mlperf_logging's own logger writes them.
void MlperfLog::line(const Event& event) {
  JsonWriter json;
  json.begin_object().field("namespace", "");
  json.field("time_ms", event.time_ms == 0 ? now_ms() : event.time_ms);
  json.field("event_type", event.type).field("key", event.key).key("value").raw(event.value);
  json.key("metadata").begin_object().field("file", "retina-train").field("lineno", 1);
  if (event.epoch > 0) json.field("epoch_num", event.epoch);
  if (!event.run.empty()) json.field("run", event.run);
  if (event.status != nullptr) json.field("status", event.status);
  json.end_object().end_object();
  write(kMlperfMark + json.text() + "\n");
}

void MlperfLog::write(const std::string& text) {
  if (is_lost_) return;
  try {
    file_.append(text);
  } catch (const Error& error) {
    is_lost_ = true;
    log_warning(error.what(), ": --mllog ends here, training goes on");
  }
}

}  // namespace retina
