// report.html of an evaluation: metrics.json made visible, one file that needs nothing else. The
// pages themselves are HTML, CSS and JavaScript in the files beside this one, which the build
// embeds: those here are every page's, those in detection/ and classification/ each kind's own.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "shared/base/cli.h"

namespace retina {

// Names and texts may hold anything: the page shows them as text.
struct EvalPage {
  std::string subtitle{};      // what was evaluated: "run/checkpoint-08.pt on shards/val"
  std::string metrics_json{};  // metrics.json's text: every number that the page shows
  std::vector<EffectiveOption> settings{};  // those set to null are left out
  std::vector<std::string> notes{};
  // JPEG files by image id, for entries of metrics.json's "images". An image without one is a plain
  // panel.
  std::map<std::int64_t, std::string> jpegs{};
};

// `metrics_json` as metrics_text.h makes it.
std::string render_detection_page(const EvalPage& page);
// The same for a classifier: as classification_text.h makes it.
std::string render_classification_page(const EvalPage& page);

}  // namespace retina
