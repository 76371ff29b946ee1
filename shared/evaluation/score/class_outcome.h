// A classifier's result for one image, reduced at once: an evaluation of a million images with
// thousands of classes holds 88 bytes an image. No LibTorch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace retina {

inline constexpr std::size_t kBestLabels = 5;  // top-5

// Outcome of one image. Plain bytes: ranks send it to one another (gather.h).
struct ClassOutcome {
  std::int64_t image_id = 0;
  std::int32_t label = 0;  // the true class, a place in the categories
  // Number of classes before the true one: those with a larger score, and among equal scores the
  // lower labels. Top-k is a hit if rank < k.
  std::int32_t rank = 0;
  double loss = 0;  // cross-entropy: -ln of the true class's probability
  // Best classes, best first, equal scores in ascending label order; -1 past the last class.
  std::array<std::int32_t, kBestLabels> best{-1, -1, -1, -1, -1};
  std::array<double, kBestLabels> probabilities{};  // softmax, of each of `best`

  std::int32_t predicted() const { return best[0]; }
  bool is_hit() const { return rank == 0; }
  double confidence() const { return probabilities[0]; }
};

struct ClassScores {
  std::int64_t image_id = 0;
  std::string_view file_name{};     // for error messages; may be empty
  int label = 0;                    // 0..K-1
  std::span<const float> scores{};  // [K] logits, any finite values; K >= 1
};

// Reduces scores to an outcome. Softmax and cross-entropy in f64 (log-sum-exp), whatever the size
// of the scores. torchvision's references/classification `accuracy` takes the classes of
// torch.topk, which promises no order among equal scores; here the lower label comes first, so that
// the result is the same on every machine. Throws Error{kData} naming image and class for a score
// that is not finite. Parity: tests/oracle/classification_metrics.py.
ClassOutcome class_outcome(const ClassScores& image);

// Returns the mistakes, the most confident first. Borrowed from `outcomes`.
std::vector<const ClassOutcome*> mistakes_by_confidence(const std::vector<ClassOutcome>& outcomes);

}  // namespace retina
