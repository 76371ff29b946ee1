// predictions.jsonl: a classifier's result for each image of an evaluation, one JSON object a line
// in ascending image id order, with the data set's own category ids:
//
//   {"image_id":7,"file_name":"cat/17.jpg","category_id":3,"rank":0,"loss":0.105,
//    "top5":[[3,0.9],[9,0.08],[5,0.02]]}
//
// `category_id` is the true class, `rank` the number of classes that came before it, `loss` its
// cross-entropy, `top5` the best classes with their probabilities, best first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/json.h"
#include "shared/coco/categories.h"
#include "shared/evaluation/score/class_outcome.h"
#include "shared/shard/image_index.h"

namespace retina {

// Writes "category_id", "rank", "loss" and "top5" into an object.
void write_outcome(JsonWriter& json, const ClassOutcome& outcome, const Categories& categories);

// Writes the file. Throws kCannotCreate, kIo.
void write_predictions(const std::string& path, const std::vector<ClassOutcome>& outcomes,
                       const Categories& categories, const FileNames& file_names);

// A line, reduced to the fields that comparisons need.
struct Prediction {
  std::int64_t image_id = 0;
  std::string file_name{};        // empty if the line has none
  std::int64_t category_id = 0;   // the true class
  std::int64_t predicted_id = 0;  // the first of top5
  double confidence = 0;          // its probability
  std::int64_t rank = 0;
  double loss = 0;
};

// Reads the file. Throws kNoInput, kIo, kData naming the line: not such an object, image ids that
// do not ascend.
std::vector<Prediction> read_predictions(const std::string& path);

}  // namespace retina
