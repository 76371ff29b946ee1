#include "evaluate/explain/explanation.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <span>

#include "shared/base/host.h"
#include "shared/base/parallel.h"

namespace retina {

namespace {

// State of a thread over its images; the result does not depend on which images they are.
struct ImageWorker {
  ImageMatcher match;
  ConfusionCounter confusion;
  SuspectFinder suspects;
};

// Objects of a class, as TIDE and as COCO count them.
struct ClassObjects {
  ClassCounts tide{};
  std::int64_t coco = 0;
};

// Returns how much the false detections and missed objects of one image matter. A missed object
// costs its share of the mean over objects and classes, as if it were found first of all.
ImageFaults faults_of(const MatchedImage& image, const MatchOutcomes& outcomes,
                      std::span<const double> object_shares) {
  const BoxGroups& boxes = outcomes.boxes;
  ImageFaults faults;
  for (std::uint32_t slot = image.first; slot < image.first + image.count; ++slot) {
    const TideOutcome& outcome = outcomes.detection[slot].tide;
    if (!outcome.evaluated || !(boxes.score[slot] >= kShownScore)) break;
    if (outcome.hit || outcome.ignored) continue;
    faults.confident_wrong = boxes.score[slot];
    break;
  }
  for (std::uint32_t g = image.first_truth; g < image.first_truth + image.truth_count; ++g) {
    const TruthOutcome& object = outcomes.truth[g];
    if (object.counts && !object.coco_hit) faults.ap_lost += object_shares[boxes.truth_label[g]];
    if (!object.crowd && !object.tide_hit) {
      faults.largest_missed = std::max(faults.largest_missed, boxes.object(g).area);
    }
  }
  return faults;
}

// Orders the boxes of a class: best first, equal scores in tidecv's order.
template <class Box>
bool before(const Box& a, const Box& b) {
  return a.score != b.score ? a.score > b.score : a.order < b.order;
}

// Results of one class.
struct ClassResult {
  ClassSplit split{};
  CalibrationBins bins{};
  std::array<std::int64_t, kFaultKindCount> ignored{};
};

ClassResult explain_class(const MatchOutcomes& outcomes, std::size_t label,
                          std::span<const MovedHit> moved, const ClassObjects& objects,
                          std::span<float> costs, ClassExplanation& explanation) {
  const BoxGroups& boxes = outcomes.boxes;
  const auto slots = boxes.of_class(label);
  ClassResult result;
  std::vector<ScoredDetection> scored;
  std::vector<TideDetection> evaluated;
  scored.reserve(slots.size());
  evaluated.reserve(slots.size());
  for (const std::uint32_t slot : slots) {
    const auto [coco, tide] = outcomes.detection[slot];
    const double score = boxes.score[slot];
    if (coco == CocoOutcome::kUncounted) continue;
    if (tide.evaluated) {
      evaluated.push_back({score, slot, tide});
      if (!tide.hit) {
        ++(tide.ignored ? result.ignored
                        : explanation.faults)[static_cast<std::size_t>(tide.fault)];
      }
    }
    if (coco == CocoOutcome::kIgnored) continue;
    const bool right = coco == CocoOutcome::kHit;
    scored.push_back({score, right});
    result.bins[equal_width_bin(score, kCalibrationBinCount, false)].add(score, right);
  }
  explanation.best_threshold = best_threshold(scored, objects.coco);
  const std::vector<float> own_costs = false_detection_costs(scored, objects.coco);
  std::size_t next = 0;
  for (const std::uint32_t slot : slots) {
    const CocoOutcome coco = outcomes.detection[slot].coco;
    const bool is_scored = coco == CocoOutcome::kHit || coco == CocoOutcome::kWrong;
    if (is_scored) costs[slot] = own_costs[next++];
  }
  explanation.faults[static_cast<std::size_t>(FaultKind::kMissed)] = objects.tide.missed;
  if (boxes.images_are_shuffled()) {
    for (TideDetection& one : evaluated) {
      one.order = boxes.slot_in_file_order(boxes.image_of(one.order), one.order);
    }
    std::sort(evaluated.begin(), evaluated.end(), before<TideDetection>);
  }
  result.split = split_class(evaluated, moved, objects.tide);
  return result;
}

class Explainer {
 public:
  Explainer(const BoxGroups& boxes, const ExplainOptions& options)
      : boxes_(boxes),
        options_(options),
        outcomes_(boxes, options.thread_count),
        classes_(boxes.class_count()),
        faults_(boxes.image_count()) {}

  Explanation explain() {
    for (std::size_t g = 0; g < outcomes_.truth.size(); ++g) {
      if (outcomes_.truth[g].counts) ++classes_[boxes_.truth_label[g]].coco;
    }
    evaluate_images();
    explain_classes();
    explanation_.worst = worst_images(faults_, boxes_, options_.most_worst);
    for (const std::int64_t id :
         images_worth_drawing(explanation_.worst, explanation_.confusion, options_.most_shown)) {
      const std::uint32_t image = boxes_.image_place(id);
      explanation_.shown.push_back(shown_image(image, options_.most_boxes, outcomes_));
      explanation_.shown.back().ap_lost = faults_[image].ap_lost;
    }
    name_images();
    return std::move(explanation_);
  }

 private:
  void name_images() {
    const auto name_all = [&](const std::vector<std::int64_t>& image_ids) {
      for (const std::int64_t id : image_ids) {
        const std::string& name = boxes_.image(boxes_.image_place(id)).file_name;
        if (!name.empty()) explanation_.file_names.emplace(id, name);
      }
    };
    for (const ConfusionCell& cell : explanation_.confusion.cells) name_all(cell.image_ids);
    for (const Suspect& suspect : explanation_.suspects) name_all({suspect.image_id});
    const WorstImages& worst = explanation_.worst;
    for (const auto* list : {&worst.ap_lost, &worst.confident_wrong, &worst.largest_missed}) {
      name_all(*list);
    }
  }

  // Returns the AP that one object of each class is worth.
  std::vector<double> object_shares() const {
    std::vector<double> shares;
    for (const ClassObjects& one : classes_) {
      shares.push_back(one.coco == 0 ? 0
                                     : 1 / static_cast<double>(one.coco) / measured_class_count());
    }
    return shares;
  }

  double measured_class_count() const {
    return static_cast<double>(std::count_if(classes_.begin(), classes_.end(),
                                             [](const ClassObjects& one) { return one.coco > 0; }));
  }

  void evaluate_images() {
    constexpr std::uint32_t kBlock = 32;
    const auto image_count = static_cast<std::uint32_t>(boxes_.image_count());
    const auto wanted = static_cast<std::size_t>(options_.thread_count > 0 ? options_.thread_count
                                                                           : usable_cores());
    const std::size_t worker_count = std::clamp<std::size_t>(image_count / kBlock, 1, wanted);
    const std::vector<double> shares = object_shares();
    // Each worker has counters of its own; outcomes and faults are written by image.
    std::vector<ImageWorker> workers;
    for (std::size_t i = 0; i < worker_count; ++i) {
      workers.push_back({.match = ImageMatcher(outcomes_),
                         .confusion = ConfusionCounter(boxes_.class_count()),
                         .suspects = SuspectFinder(
                             {.score = options_.suspect_score, .most = options_.most_suspects})});
    }
    std::atomic<std::uint32_t> next{0};
    for_each_parallel(worker_count, static_cast<int>(worker_count), [&](std::size_t i) {
      ImageWorker& worker = workers[i];
      for (std::uint32_t begin; (begin = next.fetch_add(kBlock)) < image_count;) {
        for (std::uint32_t at = begin; at < std::min(image_count, begin + kBlock); ++at) {
          const MatchedImage image = worker.match.match(at);
          worker.confusion.add(image, outcomes_);
          worker.suspects.add(image, outcomes_);
          faults_[at] = faults_of(image, outcomes_, shares);
        }
      }
    });

    // Merging and sorting remove every trace of which worker had which images.
    ImageWorker& first = workers.front();
    moved_ = first.match.moved();
    for (std::size_t i = 1; i < workers.size(); ++i) {
      first.confusion.merge(workers[i].confusion);
      first.suspects.merge(workers[i].suspects);
      moved_.insert(moved_.end(), workers[i].match.moved().begin(), workers[i].match.moved().end());
    }
    explanation_.confusion = first.confusion.result(boxes_);
    explanation_.suspects = first.suspects.result(boxes_);
    std::sort(moved_.begin(), moved_.end(), [](const MovedHit& a, const MovedHit& b) {
      if (a.label != b.label) return a.label < b.label;
      return before(a, b);
    });
  }

  void explain_classes() {
    for (std::size_t g = 0; g < outcomes_.truth.size(); ++g) {
      const TruthOutcome& object = outcomes_.truth[g];
      if (object.crowd) continue;
      ClassCounts& counts = classes_[boxes_.truth_label[g]].tide;
      ++counts.objects;
      counts.found += object.tide_hit ? 1 : 0;
      counts.missed += object.tide_missed ? 1 : 0;
    }
    std::vector<float> costs(boxes_.entry.size(), 0);
    std::vector<ClassResult> results(classes_.size());
    explanation_.per_class.resize(classes_.size());
    for_each_parallel(classes_.size(), options_.thread_count, [&](std::size_t label) {
      const auto [begin, end] = std::equal_range(
          moved_.begin(), moved_.end(), MovedHit{.label = static_cast<std::uint32_t>(label)},
          [](const MovedHit& a, const MovedHit& b) { return a.label < b.label; });
      results[label] = explain_class(outcomes_, label, {begin, end}, classes_[label], costs,
                                     explanation_.per_class[label]);
    });

    combine(results);
    // A false detection costs its class AP, and so the mean its share of that.
    for (std::size_t image = 0; image < faults_.size(); ++image) {
      double cost = 0;
      for (std::uint32_t slot = boxes_.found_begin[image]; slot < boxes_.found_begin[image + 1];
           ++slot) {
        cost += static_cast<double>(costs[slot]);
      }
      if (cost > 0) faults_[image].ap_lost += cost / measured_class_count();
    }
  }

  // Combines the results in the order of classes, independent of the threads.
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
    explanation_.calibration = {.bins = bins, .error = calibration_error(bins)};
    explanation_.error_split = combine_classes(splits);
    for (std::size_t label = 0; label < results.size(); ++label) {
      for (std::size_t kind = 0; kind < kFaultKindCount; ++kind) {
        ErrorSplit::Kind& sum = explanation_.error_split.kinds[kind];
        sum.ignored += results[label].ignored[kind];
        sum.count += results[label].ignored[kind] + explanation_.per_class[label].faults[kind];
      }
    }
  }

  const BoxGroups& boxes_;
  const ExplainOptions& options_;
  MatchOutcomes outcomes_;
  std::vector<ClassObjects> classes_;
  std::vector<ImageFaults> faults_;
  std::vector<MovedHit> moved_;
  Explanation explanation_;
};

}  // namespace

Explanation explain_detections(const BoxGroups& boxes, const ExplainOptions& options) {
  return Explainer(boxes, options).explain();
}

}  // namespace retina
