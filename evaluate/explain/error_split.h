// TIDE's split of detection errors and the AP that each kind costs: Bolya et al. 2020, "TIDE: A
// general toolbox for identifying object detection errors", equal to its package tidecv 1.0.1 for
// boxes with pos_thresh .5, background_thresh .1 and 100 detections an image.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace retina {

// Kind of a fault. Order and names are part of metrics.json; never renumber.
enum class FaultKind : std::uint8_t {
  kClassification = 0,  // on an object of another class
  kLocalisation = 1,    // near an object of its class, IoU in [.1, .5]
  kBoth = 2,            // in between: IoU in (.1, .5) with another class only
  kDuplicate = 3,       // on an object of its class that a better detection already hits
  kBackground = 4,      // IoU of .1 at most with everything
  kMissed = 5,          // an object that no correction of a detection would find
};
inline constexpr std::size_t kFaultKindCount = 6;
const char* fault_name(FaultKind kind);

inline constexpr double kTideIou = .5;
inline constexpr double kTideBackgroundIou = .1;

// TIDE's outcome for one detection.
struct TideOutcome {
  bool evaluated : 1 = false;  // among the best of its image, up to COCO's limit for a class
  bool hit : 1 = false;
  bool ignored : 1 = false;   // on a crowd region: has a kind of fault and costs nothing
  bool corrects : 1 = false;  // corrected, it would hit an object that has no hit
  FaultKind fault : 3 = FaultKind::kClassification;  // kind, if evaluated and no hit
};

struct TideDetection {
  double score = 0;
  std::uint32_t order = 0;  // among equal scores: by image as in the file, best first within it
  TideOutcome outcome{};
};
static_assert(sizeof(TideOutcome) == 1);

// A classification fault that, corrected, hits an object of class `label`.
struct MovedHit {
  std::uint32_t label = 0;
  std::uint32_t order = 0;  // as TideDetection's
  double score = 0;
};

struct ClassCounts {
  std::int64_t objects = 0;  // without crowd regions
  std::int64_t found = 0;    // objects that have a hit
  std::int64_t missed = 0;   // objects of kind kMissed
};

// One class's AP, in 0..1, as it is and with one kind of fault corrected. `present`: the class has
// an object or a detection left, so that it counts in the mean.
struct ClassSplit {
  struct Ap {
    double value = 0;
    bool present = false;
  };
  Ap now{};
  std::array<Ap, kFaultKindCount> corrected{};
  Ap no_false_positives{}, no_false_negatives{};
};

// Returns one class's split. `detections`: the class's, best first, equal scores by `order`.
// `moved`: those of other classes whose correction belongs to this class, in the same order. tidecv
// puts false detections before hits of equal score once it corrects anything, and so does this.
ClassSplit split_class(std::span<const TideDetection> detections, std::span<const MovedHit> moved,
                       const ClassCounts& counts);

struct ErrorSplit {
  struct Kind {
    std::int64_t count = 0;    // including those on crowd regions, as tidecv counts
    std::int64_t ignored = 0;  // those on crowd regions
    double ap_cost = 0;        // AP that correcting this kind alone would add, never below 0
  };
  double ap =
      0;  // tidecv's own AP at IoU .5: classes without objects but with detections count as 0
  std::array<Kind, kFaultKindCount> kinds{};
  double false_positive_cost = 0, false_negative_cost = 0;
};

// Returns the means over the classes, without the counts. If a correction leaves nothing to find
// and nothing found, AP is then 1 (all is right); all is 0 if that is so from the start. tidecv
// divides by zero in both cases.
ErrorSplit combine_classes(std::span<const ClassSplit> classes);

}  // namespace retina
