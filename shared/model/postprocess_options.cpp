#include "shared/model/postprocess_options.h"

#include "shared/base/error.h"

namespace retina {
namespace {

void check_fraction(const char* name, double value) {
  if (value >= 0 && value <= 1) return;
  throw Error(ErrorKind::kUsage, cat(name, ": out of range (got ", value, ", want 0 to 1)"));
}

// Far more than five levels have candidates; each takes room in every answer.
constexpr int kMost = 100'000;

void check_count(const char* name, int value) {
  if (value >= 1 && value <= kMost) return;
  throw Error(ErrorKind::kUsage,
              cat(name, ": out of range (got ", value, ", want 1 to ", kMost, ")"));
}

}  // namespace

void PostprocessOptions::validate() const {
  check_fraction("score threshold", score_threshold);
  check_fraction("NMS threshold", nms_threshold);
  check_count("candidates per level", candidates_per_level);
  check_count("max detections", max_detections);
}

}  // namespace retina
