#include "shared/evaluation/score/verdict.h"

#include <algorithm>

#include "shared/base/cat.h"
#include "shared/base/printable.h"

namespace retina {
namespace {

constexpr double kNothing = .01;  // AP of a detector that has learned nothing
constexpr std::int64_t kFewObjects = 100;
constexpr std::int64_t kFewSteps = 1000;
constexpr double kWide = .1;         // an interval of this width tells little
constexpr double kStillRises = .01;  // AP over the last fifth
constexpr double kLossRise = 1.15;   // of validation over its least: what is learned is by heart

std::string meaning(double ap) {
  if (ap < kNothing) return "it finds nothing yet";
  if (ap < .15) return "it finds some objects and misses most";
  if (ap < .3) return "usable where a person looks at what it found";
  if (ap < .5) return "good: most objects are found, their boxes are a little off";
  return "very good: boxes fit closely";
}

std::string step_from_nothing(const TrainingCourse& course) {
  if (course.last_loss > .9 * course.first_loss) {
    return "the loss has not fallen: another learning rate, a fifth or five times of it, or "
           "weights to start from";
  }
  return "look at a preview of the samples: labels in the wrong place, or boxes that no anchor "
         "fits, are seen there";
}

// Returns how much the best AP has risen within the last fifth of the run.
double late_gain(const TrainingCourse& course) {
  double before = 0, best = 0;
  for (std::size_t i = 0; i < course.aps.size(); ++i) {
    best = std::max(best, course.aps[i]);
    if (course.steps[i] <= .8 * static_cast<double>(course.total_steps)) before = best;
  }
  return best - before;
}

std::string next_step(const VerdictInput& input) {
  if (input.course && input.course->total_steps < kFewSteps) {
    return cat("give it more time: it made only ", counted(input.course->total_steps, "step"));
  }
  if (input.course && input.ap < kNothing) return step_from_nothing(*input.course);
  const bool is_wide = !input.interval || input.interval->high - input.interval->low > kWide;
  if (input.object_count < kFewObjects && is_wide) {
    return cat("label more validation images: ", counted(input.object_count, "object"), " on ",
               counted(input.image_count, "image"), " tell little");
  }
  if (!input.course || input.course->aps.size() < 3) return "";
  const TrainingCourse& course = *input.course;
  if (const double gain = late_gain(course); gain > kStillRises) {
    return cat("train longer, in another folder: the last fifth of the run still gained ",
               fixed(gain, 3));
  }
  const double least = *std::min_element(course.losses.begin(), course.losses.end());
  if (course.losses.back() > kLossRise * least) {
    return "more images, or stronger augmentation: the training images are learned by heart (the "
           "validation loss rises)";
  }
  return "more images, larger images or a larger network: this run has learned what it could";
}

}  // namespace

VerdictInput verdict_facts(const CocoMetrics& metrics, const BoxGroups& boxes) {
  VerdictInput input{.ap = metrics.stats[kAp],
                     .object_count = metrics.object_count,
                     .image_count = metrics.image_count};
  if (input.image_count <= kMostResampledImages) input.interval = ap_interval(boxes, 0);
  for (const ClassMetrics& one : metrics.per_class) {
    if (one.object_count > 0 && one.stats[kAp] < kNothing) input.lost_classes.push_back(one.name);
  }
  return input;
}

std::string verdict(const VerdictInput& input) {
  if (input.ap < 0 || input.object_count == 0) return "";
  const std::string interval =
      input.interval ? cat(" (95 % of such image sets: ", fixed(input.interval->low, 3), " to ",
                           fixed(input.interval->high, 3), ")")
                     : "";
  std::string text = cat("AP ", fixed(input.ap, 3), interval, ": ", meaning(input.ap));
  for (std::size_t i = 0; i < input.lost_classes.size() && input.ap >= kNothing; ++i) {
    text += cat(i == 0 ? "; not found at all: " : ", ", escaped(input.lost_classes[i]));
  }
  const std::string step = next_step(input);
  return step.empty() ? text : cat(text, "; next: ", step);
}

}  // namespace retina
