#include "tests/evaluation/random_set.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "shared/base/cat.h"
#include "shared/numeric/random.h"

namespace retina {
namespace {

using Box = std::array<double, 4>;

// Numbers in the order they are asked for; Dice of random_sets.py.
class Dice {
 public:
  explicit Dice(int set)
      : stream_{.seed = kRandomSetSeed,
                .use = RandomUse::kTest,
                .stream = 100000 + static_cast<std::uint32_t>(set)} {}
  double unit() { return stream_.unit(place_++); }
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(unit() * static_cast<double>(bound));
  }
  template <class T, std::size_t N>
  T pick(const T (&choices)[N]) {
    return choices[below(static_cast<std::int64_t>(N))];
  }

 private:
  RandomStream stream_;
  std::uint64_t place_ = 0;
};

// What a set is like, drawn first.
struct Character {
  std::int64_t images, categories, category_gap, most_objects, least_found, most_found;
  double crowds, score_steps;
  bool whole_pixels;
  std::int64_t first_id;
  bool area_edges, low_scores;
  std::int64_t unknown;
};

Character draw_character(Dice& dice) {
  Character c{};
  c.images = 1 + dice.below(12);
  c.categories = 1 + dice.below(6);
  c.category_gap = 1 + dice.below(9);
  c.most_objects = dice.below(9);
  c.most_found = dice.pick<std::int64_t>({1, 10, 40, 160});
  c.crowds = dice.pick<double>({0, 0.1, 0.7});
  c.score_steps = dice.pick<double>({0, 3, 20});
  c.whole_pixels = dice.below(2) == 1;
  c.first_id = dice.pick<std::int64_t>({-5, 0, 1});
  c.area_edges = dice.below(2) == 1;
  c.low_scores = dice.below(2) == 1;
  c.unknown = dice.below(4);
  if (c.most_found == 160) {  // more than 100 of one class in an image
    c.least_found = 120;
    c.images = std::min<std::int64_t>(c.images, 3);
    c.categories = 1;
  }
  return c;
}

void round_to_pixels(Box& box) {
  for (double& side : box) side = std::floor(side + 0.5);
}

class Maker {
 public:
  explicit Maker(int set) : dice_(set), c_(draw_character(dice_)) {
    for (std::int64_t k = 0; k < c_.categories; ++k) {
      set_.truth.categories.push_back({.id = category(k), .name = cat("class ", k)});
    }
    for (std::int64_t i = 0; i < c_.images; ++i) {
      set_.truth.images.push_back({.id = (i * 37 + 11 * set) % 997,
                                   .file_name = cat(i, ".jpg"),
                                   .width = 640,
                                   .height = 480});
      objects_.clear();
      for (std::int64_t n = dice_.below(c_.most_objects + 1); n > 0; --n) add_object();
      const std::int64_t found = c_.least_found + dice_.below(c_.most_found - c_.least_found + 1);
      for (std::int64_t n = found; n > 0; --n) add_detection();
    }
    const std::int64_t first = set_.truth.images.front().id;
    for (std::int64_t n = c_.unknown; n > 0; --n) {
      set_.found.push_back({first, kUnknownCategory, {0, 0, 50, 50}, 0.99});
    }
    if (set_.found.empty()) set_.found.push_back({first, category(0), {5, 5, 20, 20}, 0.5});
    for (std::size_t i = set_.found.size(); i > 1; --i) {
      std::swap(set_.found[i - 1],
                set_.found[static_cast<std::size_t>(dice_.below(static_cast<std::int64_t>(i)))]);
    }
  }
  RandomSet take() { return std::move(set_); }

 private:
  struct Object {
    Box box;
    std::int64_t category;
  };
  std::int64_t category(std::int64_t k) const { return 1 + k * c_.category_gap; }

  void add_object() {
    const double side = dice_.pick<double>({12, 32, 50, 96, 150});
    Box box{};
    box[2] = side * (0.5 + 1.5 * dice_.unit());
    box[3] = side * (0.5 + 1.5 * dice_.unit());
    box[0] = dice_.unit() * 600;
    box[1] = dice_.unit() * 440;
    if (c_.whole_pixels) round_to_pixels(box);
    double area = box[2] * box[3] * (0.4 + 0.6 * dice_.unit());
    if (c_.area_edges) {
      area = dice_.pick<double>({1024, 9216, 1024.0000000000002, 9215.999999999998, 1e10});
    }
    objects_.push_back({box, category(dice_.below(c_.categories))});
    set_.truth.annotations.push_back(
        {.id = c_.first_id + static_cast<std::int64_t>(set_.truth.annotations.size()),
         .image_id = set_.truth.images.back().id,
         .category_id = objects_.back().category,
         .bbox = box,
         .area = area,
         .iscrowd = dice_.unit() < c_.crowds});
  }

  void add_detection() {
    Detection one{.image_id = set_.truth.images.back().id};
    if (!objects_.empty() && dice_.unit() < 0.75) {
      const auto count = static_cast<std::int64_t>(objects_.size());
      const Object& near = objects_[static_cast<std::size_t>(dice_.below(count))];
      one.category_id = dice_.unit() < 0.1 ? category(dice_.below(c_.categories)) : near.category;
      const double amount = dice_.pick<double>({0, 0.03, 0.1, 0.2});
      for (std::size_t side = 0; side < 4; ++side) {
        const double size = near.box[2 + side % 2];
        one.bbox[side] = near.box[side] + amount * (2 * dice_.unit() - 1) * size;
      }
      if (c_.whole_pixels) round_to_pixels(one.bbox);
    } else {
      one.category_id = category(dice_.below(c_.categories));
      for (double& side : one.bbox) side = 300 * dice_.unit();
    }
    if (c_.area_edges && dice_.unit() < 0.3) {
      one.bbox[2] = one.bbox[3] = dice_.pick<double>({32, 96, 1e5});
    }
    one.score = dice_.unit();
    if (c_.score_steps > 0) {
      one.score = std::floor(one.score * c_.score_steps + 0.5) / c_.score_steps;
    }
    if (c_.low_scores) one.score = one.score - 0.5;
    set_.found.push_back(one);
  }

  Dice dice_;
  Character c_;
  RandomSet set_;
  std::vector<Object> objects_;  // of the present image
};

}  // namespace

RandomSet random_set(int number) {
  return Maker(number).take();
}

RandomSet resampled(const RandomSet& set, const std::vector<std::uint32_t>& weights) {
  std::map<std::int64_t, std::uint32_t> weight_of;
  for (const ImageInfo& image : set.truth.images) weight_of[image.id] = 0;
  std::size_t place = 0;
  for (auto& [id, weight] : weight_of) weight = weights[place++];
  RandomSet copy{.truth = {.categories = set.truth.categories}};
  std::int64_t next_id = 1;
  for (const auto& [id, weight] : weight_of) {
    for (std::uint32_t i = 0; i < weight; ++i, ++next_id) {
      copy.truth.images.push_back({.id = next_id, .width = 1, .height = 1});
      for (Annotation one : set.truth.annotations) {
        if (one.image_id != id) continue;
        one.image_id = next_id;
        copy.truth.annotations.push_back(one);
      }
      for (Detection one : set.found) {
        if (one.image_id != id) continue;
        one.image_id = next_id;
        copy.found.push_back(one);
      }
    }
  }
  return copy;
}

}  // namespace retina
