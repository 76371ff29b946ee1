// What the options of other training and export tools (torchvision's references, Ultralytics,
// MMDetection, Detectron2, Lightning, timm, Keras scripts) are called in ours: the one table, for
// all four programs, by which an unknown option is answered.
#pragma once

#include <string>
#include <vector>

namespace retina {

// The four programs' answers; an empty one: it has nothing of the kind. An answer is one or more of
// the program's options with a remark, or a sentence.
struct ForeignOption {
  std::vector<std::string> names{};  // without dashes, '-' for '_'
  std::string pack{}, train{}, eval{}, convert{};

  // The answer of "coco-pack", "retina-train", "retina-eval" or "retina-convert".
  const std::string& of(const std::string& program) const;
};

const std::vector<ForeignOption>& foreign_options();

// What `program` says to the option `name`, which it does not have or not with such a value: "here
// it is --images-per-step (all ranks together)"; what another program would say where this one has
// nothing of the kind; "" for a name that the table does not have.
std::string foreign_option_answer(const std::string& program, const std::string& name);

}  // namespace retina
