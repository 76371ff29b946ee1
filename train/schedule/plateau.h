// Notices when a figure has stopped improving: the rule of Keras' ReduceLROnPlateau and
// EarlyStopping callbacks.
#pragma once

#include <cstdint>
#include <optional>

namespace retina {

struct PlateauOptions {
  bool higher_is_better = false;
  int patience = 2;         // values in a row without improvement that make a plateau
  double min_delta = 1e-4;  // an improvement is larger than this
};

class Plateau {
 public:
  struct State {
    std::optional<double> best = {};
    std::int64_t waited = 0;  // values since the last improvement or plateau

    friend bool operator==(const State&, const State&) = default;
  };

  explicit Plateau(const PlateauOptions& options) : options_(options) {}

  // Takes the next value; true when it completes a plateau, after which waiting starts over (the
  // best value stays). A value that is not a number is not an improvement.
  bool observe(double value);

  const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }

 private:
  PlateauOptions options_;
  State state_;
};

}  // namespace retina
