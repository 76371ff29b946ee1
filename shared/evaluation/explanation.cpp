#include "shared/evaluation/explanation.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <numeric>
#include <span>

#include "shared/base/cores.h"
#include "shared/base/parallel.h"

namespace retina {

namespace {

// What a thread gathers over its images; nothing of it depends on which images they are.
struct ImageWorker {
  ImageJudge judge;
  ConfusionCounter confusion;
  SuspectFinder suspects;
};

// Objects of a class, as TIDE and as COCO count them.
struct ClassObjects {
  ClassCounts tide{};
  std::int64_t coco = 0;
};

// A detection as its class sees it.
struct ClassPoint {
  double score = 0;
  std::uint32_t slot = 0;
  DetectionVerdict verdict{};
};
static_assert(sizeof(ClassPoint) == 16);

// Detections by class, in ascending slots until a class sorts its own.
struct ClassPoints {
  std::vector<std::uint32_t> begin{};  // [classes + 1]
  std::vector<ClassPoint> points{};

  std::span<ClassPoint> of(std::size_t label) {
    return std::span(points).subspan(begin[label], begin[label + 1] - begin[label]);
  }
};

// Gives back what of `verdicts` the points have: scores and labels.
ClassPoints group_by_class(Verdicts& verdicts, const std::vector<Detection>& detections) {
  ClassPoints classes;
  verdicts.score = {};
  classes.begin.assign(verdicts.class_count + 1, 0);
  const auto counted = [&](std::size_t slot) {
    return verdicts.detection[slot].coco != CocoOutcome::kUncounted;
  };
  for (std::size_t slot = 0; slot < verdicts.label.size(); ++slot) {
    if (counted(slot)) ++classes.begin[verdicts.label[slot] + 1];
  }
  std::partial_sum(classes.begin.begin(), classes.begin.end(), classes.begin.begin());
  classes.points.resize(classes.begin.back());
  std::vector<std::uint32_t> next(classes.begin.begin(), classes.begin.end() - 1);
  for (std::uint32_t slot = 0; slot < verdicts.label.size(); ++slot) {
    if (!counted(slot)) continue;
    classes.points[next[verdicts.label[slot]]++] = {detections[verdicts.entry[slot]].score, slot,
                                                    verdicts.detection[slot]};
  }
  verdicts.label = {};
  return classes;
}

// Order-preserving bits of a score, the highest score first. 0 and -0 are equal.
std::uint64_t descending_bits(double score) {
  const auto bits = std::bit_cast<std::uint64_t>(score + 0.0);
  return (bits >> 63) != 0 ? bits : ~bits & ~(std::uint64_t{1} << 63);
}

// Best first, equal scores by slot, from ascending slots: a radix sort by the upper 33 bits of the
// score, then neighbours that differ in the lower ones only. Twice as fast as std::sort.
void sort_points(std::span<ClassPoint> points, std::vector<ClassPoint>& buffer) {
  constexpr int kDigitBits = 11, kDigits = 3;
  constexpr std::size_t kBuckets = std::size_t{1} << kDigitBits;
  const auto before = [](const ClassPoint& a, const ClassPoint& b) {
    return a.score != b.score ? a.score > b.score : a.slot < b.slot;
  };
  if (points.size() < kBuckets / 4) {
    std::sort(points.begin(), points.end(), before);
    return;
  }
  std::array<std::array<std::uint32_t, kBuckets>, kDigits> next{};
  const auto digit = [](const ClassPoint& point, int place) {
    const int shift = 64 - kDigitBits * (kDigits - place);
    return static_cast<std::size_t>(descending_bits(point.score) >> shift) & (kBuckets - 1);
  };
  for (const ClassPoint& point : points) {
    for (int place = 0; place < kDigits; ++place) {
      ++next[static_cast<std::size_t>(place)][digit(point, place)];
    }
  }
  buffer.resize(points.size());
  std::span<ClassPoint> from = points, into = buffer;
  for (int place = 0; place < kDigits; ++place) {
    auto& starts = next[static_cast<std::size_t>(place)];
    std::exclusive_scan(starts.begin(), starts.end(), starts.begin(), std::uint32_t{0});
    for (const ClassPoint& point : from) into[starts[digit(point, place)]++] = point;
    std::swap(from, into);
  }
  std::copy(from.begin(), from.end(), points.begin());
  // Stable so far, so only lower bits can be out of order.
  for (std::size_t begin = 0, end = 0; begin < points.size(); begin = end) {
    bool sorted = true;
    const std::uint64_t upper = descending_bits(points[begin].score) >> 31;
    for (end = begin + 1; end < points.size(); ++end) {
      if (descending_bits(points[end].score) >> 31 != upper) break;
      sorted = sorted && !(points[end].score > points[end - 1].score);
    }
    if (!sorted) {
      std::sort(points.begin() + static_cast<std::ptrdiff_t>(begin),
                points.begin() + static_cast<std::ptrdiff_t>(end), before);
    }
  }
}

// What the false detections and missed objects of one image are worth looking at for. A missed
// object costs its share of the mean over objects and classes, as if it were found first of all.
ImageFaults faults_of(const JudgedImage& image, const Verdicts& verdicts, const Instances& truth,
                      std::span<const double> object_shares) {
  ImageFaults faults;
  for (std::uint32_t slot = image.first; slot < image.first + image.count; ++slot) {
    const TideOutcome& outcome = verdicts.detection[slot].tide;
    if (!outcome.judged || !(verdicts.score[slot] >= kPicturedScore)) break;
    if (outcome.hit || outcome.ignored) continue;
    faults.confident_wrong = verdicts.score[slot];
    break;
  }
  for (std::uint32_t g = image.first_truth; g < image.first_truth + image.truth_count; ++g) {
    const TruthVerdict& object = verdicts.truth[g];
    if (object.counts && !object.coco_hit) faults.ap_lost += object_shares[verdicts.truth_label[g]];
    if (!object.crowd && !object.tide_hit) {
      faults.largest_missed =
          std::max(faults.largest_missed, truth.annotations[verdicts.annotation[g]].area);
    }
  }
  return faults;
}

// Everything about one class. Writes the costs of its false detections to `costs`, by slot.
struct ClassResult {
  ClassSplit split{};
  CalibrationBins bins{};
  std::array<std::int64_t, kFaultKindCount> ignored{};
};

ClassResult explain_class(std::span<ClassPoint> points, std::span<const MovedHit> moved,
                          const ClassObjects& objects, std::span<float> costs,
                          ClassExplanation& explanation) {
  ClassResult result;
  {
    std::vector<ClassPoint> buffer;
    sort_points(points, buffer);
  }
  std::vector<ScoredDetection> scored;
  std::vector<TideDetection> judged;
  scored.reserve(points.size());
  judged.reserve(points.size());
  for (const ClassPoint& point : points) {
    const TideOutcome& tide = point.verdict.tide;
    if (tide.judged) {
      judged.push_back({point.score, point.slot, tide});
      if (!tide.hit) {
        ++(tide.ignored ? result.ignored
                        : explanation.faults)[static_cast<std::size_t>(tide.fault)];
      }
    }
    if (point.verdict.coco == CocoOutcome::kIgnored) continue;
    const bool right = point.verdict.coco == CocoOutcome::kHit;
    scored.push_back({point.score, right});
    CalibrationBin& bin = result.bins[calibration_bin(point.score)];
    ++bin.count;
    bin.right += right ? 1 : 0;
    bin.score_sum += point.score;
  }
  explanation.best_threshold = best_threshold(scored, objects.coco);
  const std::vector<float> own_costs = false_detection_costs(scored, objects.coco);
  std::size_t next = 0;
  for (const ClassPoint& point : points) {
    if (point.verdict.coco != CocoOutcome::kIgnored) costs[point.slot] = own_costs[next++];
  }
  explanation.faults[static_cast<std::size_t>(FaultKind::kMissed)] = objects.tide.missed;
  result.split = split_class(judged, moved, objects.tide);
  return result;
}

class Explainer {
 public:
  Explainer(const Instances& truth, const std::vector<Detection>& detections,
            const ExplainOptions& options)
      : truth_(truth),
        detections_(detections),
        options_(options),
        places_(truth),
        verdicts_(group_by_image(truth, detections, places_, options.thread_count)),
        classes_(verdicts_.class_count),
        faults_(verdicts_.image_count()) {}

  Explanation explain() {
    for (std::size_t g = 0; g < verdicts_.truth.size(); ++g) {
      if (verdicts_.truth[g].counts) ++classes_[verdicts_.truth_label[g]].coco;
    }
    judge_images();
    explain_classes();
    explanation_.worst = worst_images(faults_, truth_, options_.most_worst);
    for (const std::int64_t id :
         images_worth_drawing(explanation_.worst, explanation_.confusion, options_.most_pictured)) {
      const std::uint32_t image = places_.images.place_of(id);
      explanation_.pictured.push_back(
          pictured_image(image, options_.most_boxes, verdicts_, truth_, detections_));
      explanation_.pictured.back().ap_lost = faults_[image].ap_lost;
    }
    return std::move(explanation_);
  }

 private:
  // AP that one object of each class is worth.
  std::vector<double> object_shares() const {
    const auto class_count = static_cast<double>(std::count_if(
        classes_.begin(), classes_.end(), [](const ClassObjects& one) { return one.coco > 0; }));
    std::vector<double> shares;
    for (const ClassObjects& one : classes_) {
      shares.push_back(one.coco == 0 ? 0 : 1 / static_cast<double>(one.coco) / class_count);
    }
    return shares;
  }

  void judge_images() {
    constexpr std::uint32_t kBlock = 32;
    const auto image_count = static_cast<std::uint32_t>(verdicts_.image_count());
    const auto wanted = static_cast<std::size_t>(options_.thread_count > 0 ? options_.thread_count
                                                                           : usable_cores());
    const std::size_t worker_count = std::clamp<std::size_t>(image_count / kBlock, 1, wanted);
    const std::vector<double> shares = object_shares();
    std::vector<ImageWorker> workers;
    for (std::size_t i = 0; i < worker_count; ++i) {
      workers.push_back({.judge = ImageJudge(truth_, detections_, places_.labels, verdicts_),
                         .confusion = ConfusionCounter(verdicts_.class_count),
                         .suspects = SuspectFinder(
                             {.score = options_.suspect_score, .most = options_.most_suspects})});
    }
    std::atomic<std::uint32_t> next{0};
    for_each_parallel(worker_count, static_cast<int>(worker_count), [&](std::size_t i) {
      ImageWorker& worker = workers[i];
      for (std::uint32_t begin; (begin = next.fetch_add(kBlock)) < image_count;) {
        for (std::uint32_t at = begin; at < std::min(image_count, begin + kBlock); ++at) {
          const JudgedImage image = worker.judge.judge(at);
          worker.confusion.add(image, verdicts_, truth_);
          worker.suspects.add(image, verdicts_, truth_);
          faults_[at] = faults_of(image, verdicts_, truth_, shares);
        }
      }
    });

    ImageWorker& first = workers.front();
    moved_ = first.judge.moved();
    for (std::size_t i = 1; i < workers.size(); ++i) {
      first.confusion.merge(workers[i].confusion);
      first.suspects.merge(workers[i].suspects);
      moved_.insert(moved_.end(), workers[i].judge.moved().begin(), workers[i].judge.moved().end());
    }
    explanation_.confusion = first.confusion.result(verdicts_, truth_);
    explanation_.suspects = first.suspects.result(truth_, detections_);
    std::sort(moved_.begin(), moved_.end(), [](const MovedHit& a, const MovedHit& b) {
      if (a.label != b.label) return a.label < b.label;
      return a.score != b.score ? a.score > b.score : a.slot < b.slot;
    });
  }

  void explain_classes() {
    for (std::size_t g = 0; g < verdicts_.truth.size(); ++g) {
      const TruthVerdict& object = verdicts_.truth[g];
      if (object.crowd) continue;
      ClassCounts& counts = classes_[verdicts_.truth_label[g]].tide;
      ++counts.objects;
      counts.found += object.tide_hit ? 1 : 0;
      counts.missed += object.tide_missed ? 1 : 0;
    }
    ClassPoints points = group_by_class(verdicts_, detections_);
    std::vector<float> costs(verdicts_.entry.size(), 0);
    std::vector<ClassResult> results(classes_.size());
    explanation_.per_class.resize(classes_.size());
    for_each_parallel(classes_.size(), options_.thread_count, [&](std::size_t label) {
      const auto [begin, end] = std::equal_range(
          moved_.begin(), moved_.end(), MovedHit{.label = static_cast<std::uint32_t>(label)},
          [](const MovedHit& a, const MovedHit& b) { return a.label < b.label; });
      results[label] = explain_class(points.of(label), {begin, end}, classes_[label], costs,
                                     explanation_.per_class[label]);
    });

    combine(results);
    const auto measured_classes = static_cast<double>(std::count_if(
        classes_.begin(), classes_.end(), [](const ClassObjects& one) { return one.coco > 0; }));
    for (std::size_t image = 0; image < faults_.size(); ++image) {
      double cost = 0;
      for (std::uint32_t slot = verdicts_.image_begin[image];
           slot < verdicts_.image_begin[image + 1]; ++slot) {
        cost += static_cast<double>(costs[slot]);
      }
      if (cost > 0) faults_[image].ap_lost += cost / measured_classes;
    }
  }

  // In the order of classes, whichever thread had them.
  void combine(const std::vector<ClassResult>& results) {
    std::vector<ClassSplit> splits;
    CalibrationBins bins{};
    for (const ClassResult& one : results) {
      splits.push_back(one.split);
      for (std::size_t i = 0; i < bins.size(); ++i) {
        bins[i].count += one.bins[i].count;
        bins[i].right += one.bins[i].right;
        bins[i].score_sum += one.bins[i].score_sum;
      }
    }
    explanation_.calibration = calibration_of(bins);
    explanation_.error_split = combine_classes(splits);
    for (std::size_t label = 0; label < results.size(); ++label) {
      for (std::size_t kind = 0; kind < kFaultKindCount; ++kind) {
        ErrorSplit::Kind& sum = explanation_.error_split.kinds[kind];
        sum.ignored += results[label].ignored[kind];
        sum.count += results[label].ignored[kind] + explanation_.per_class[label].faults[kind];
      }
    }
  }

  const Instances& truth_;
  const std::vector<Detection>& detections_;
  const ExplainOptions& options_;
  const SetPlaces places_;
  Verdicts verdicts_;
  std::vector<ClassObjects> classes_;
  std::vector<ImageFaults> faults_;
  std::vector<MovedHit> moved_;
  Explanation explanation_;
};

}  // namespace

Explanation explain_detections(const Instances& truth, const std::vector<Detection>& detections,
                               const ExplainOptions& options) {
  return Explainer(truth, detections, options).explain();
}

}  // namespace retina
