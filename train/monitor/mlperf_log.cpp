#include "train/monitor/mlperf_log.h"

#include <chrono>
#include <cmath>
#include <cstdlib>

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

// Without what is there, unless a run continues: then without its end, which was none.
std::string prepared(const std::string& path, bool continues) {
  if (!path_exists(path)) return path;
  if (!continues) {
    remove_file(path);
    return path;
  }
  const std::string text = read_file(path);
  const std::size_t last = text.rfind(kMlperfMark);
  if (last != std::string::npos && text.find(R"("key":"run_stop")", last) != std::string::npos) {
    write_file_atomically(path, text.substr(0, last));
  }
  return path;
}

}  // namespace

MlperfLog::MlperfLog(const std::string& path, const MlperfSettings& settings, bool continues)
    : file_(prepared(path, continues), "--mllog") {
  if (continues && file_size_bytes(path) > 0) {
    if (!read_file(path).ends_with('\n')) write("\n");  // a kill within a line
    return;
  }
  line({.key = "init_start", .type = kBegin, .time_ms = kLoadedMs});
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
