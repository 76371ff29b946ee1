// Annotations that look wrong: those that confident detections contradict, and objects that no
// detection finds. For people to check; a detector may be wrong about each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "evaluate/explain/match_outcomes.h"

namespace retina {

// Kind of a suspect. Order and names are part of metrics.json; never renumber.
enum class SuspectKind : std::uint8_t {
  kUnlabelled = 0,  // a confident detection with IoU < .1 to everything annotated
  kWrongClass = 1,  // one of another class with IoU >= .75 on an object that has no hit
  kNeverFound = 2,  // an object that no detection of any class and score reaches with IoU .5
};
inline constexpr std::size_t kSuspectKindCount = 3;
const char* suspect_name(SuspectKind kind);

inline constexpr double kUnlabelledIou = .1;
inline constexpr double kWrongClassIou = .75;

// A suspect; crowd regions never are.
struct Suspect {
  SuspectKind kind = SuspectKind::kUnlabelled;
  std::int64_t image_id = 0;
  std::string file_name{};                                     // the image's; may be empty
  std::optional<std::int64_t> annotation_id{}, category_id{};  // unset when unlabelled
  std::optional<std::int64_t> found_category_id{};             // unset when never found
  std::optional<double> score{};                               // unset when never found
  double iou = 0;  // with the best object; of an object never found, with the best detection
  std::array<double, 4> bbox{};  // the annotation's; if unlabelled the detection's
};

struct SuspectOptions {
  double score = .5;       // least score of a confident detection
  std::size_t most = 100;  // suspects of each kind
};

// Collects the candidates of each kind.
class SuspectFinder {
 public:
  explicit SuspectFinder(const SuspectOptions& options) : options_(options) {}
  void add(const MatchedImage& image, const MatchOutcomes& outcomes);
  // Adds the suspects of `other`; the order of merging changes nothing.
  void merge(const SuspectFinder& other);
  // Returns the suspects by kind, best evidence first, at most `most` of each. Of unlabelled
  // detections that overlap each other by IoU .5 only the most confident is kept: they are about
  // one object.
  std::vector<Suspect> result(const BoxGroups& boxes) const;

 private:
  struct Candidate {
    double evidence = 0;  // the detection's score; of an object never found its area
    double iou = 0;
    std::uint32_t image = 0;       // place
    std::uint32_t annotation = 0;  // place in the file; 0 if unlabelled
    std::uint32_t detection = 0;   // place in the file; 0 if never found
  };
  void keep(SuspectKind kind, const Candidate& candidate);
  static bool stronger(const Candidate& a, const Candidate& b);

  SuspectOptions options_;
  std::array<std::vector<Candidate>, kSuspectKindCount> kept_{};
  std::vector<double> best_ious_;        // [objects of the image]
  std::vector<std::uint8_t> contested_;  // [objects of the image]
};

}  // namespace retina
