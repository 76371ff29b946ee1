#include "evaluate/page/eval_page.h"

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <string_view>
#include <utility>

#include "evaluate/page/page_parts.h"
#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/base/version.h"
#include "shared/report/page_head.h"
#include "shared/report/style.h"
#include "shared/report/text.h"

namespace retina {

namespace {

constexpr const char* kTitle = "Evaluation";

// JSON inside <script>: "<" occurs in strings only, and as an escape it can end or open no element.
std::string for_script(std::string_view json) {
  std::string text;
  text.reserve(json.size() + json.size() / 64);
  for (;;) {
    const std::size_t end = json.find('<');
    text += json.substr(0, end);
    if (end == std::string_view::npos) return text;
    text += "\\u003c";
    json.remove_prefix(end + 1);
  }
}

std::string extras_json(const EvalPage& page) {
  JsonWriter json;
  json.begin_object().key("notes").begin_array();
  for (const std::string& note : page.notes) json.value(note);
  json.end_array().key("settings").begin_array();
  for (const EffectiveOption& option : page.settings) {
    if (option.json == "null") continue;
    json.begin_array().value(option.name).value(option.json).end_array();
  }
  return json.end_array().end_object().text();
}

std::string images_json(const std::map<std::int64_t, std::string>& jpegs) {
  JsonWriter json;
  json.begin_object();
  for (const auto& [image_id, jpeg] : jpegs) {
    json.field(cat(image_id), cat("data:image/jpeg;base64,", base64(jpeg)));
  }
  return json.end_object().text();
}

using Value = std::pair<std::string_view, std::string_view>;

// `text` with each @NAME@ replaced; what is put in is not searched again.
std::string filled(std::string_view text, std::initializer_list<Value> values) {
  std::string out;
  out.reserve(
      std::accumulate(values.begin(), values.end(), text.size(),
                      [](std::size_t sum, const Value& one) { return sum + one.second.size(); }));
  while (true) {
    const std::size_t begin = text.find('@');
    out += text.substr(0, begin);
    if (begin == std::string_view::npos) return out;
    const std::size_t end = text.find('@', begin + 1);
    RETINA_CHECK(end != std::string_view::npos, "page.html holds a lone @");
    const std::string_view name = text.substr(begin + 1, end - begin - 1);
    const auto value = std::find_if(values.begin(), values.end(),
                                    [&](const Value& one) { return one.first == name; });
    RETINA_CHECK(value != values.end(), "page.html asks for ", name);
    out += value->second;
    text.remove_prefix(end + 1);
  }
}

// What makes a kind of page.
struct PageKind {
  const char* sections;
  const char* script;
  const char* script_sha256;
};

std::string render(const EvalPage& page, const PageKind& kind) {
  return filled(
      kPageHtml,
      {{"HEAD", page_head({.title = kTitle,
                           .style = cat(kReportStyle, kPageStyle),
                           .script_sha256 = kind.script_sha256})},
       {"TITLE", kTitle},
       {"SUBTITLE", escape_html(page.subtitle)},
       {"SECTIONS", kind.sections},
       {"SCRIPT", kind.script},
       {"METRICS", for_script(page.metrics_json)},
       {"EXTRAS", for_script(extras_json(page))},
       {"IMAGES", for_script(images_json(page.jpegs))},
       {"FOOTER", cat("retina-batch ", kProjectVersion, " (", escape_html(kGitRevision), ")")}});
}

}  // namespace

std::string render_detection_page(const EvalPage& page) {
  return render(page, {.sections = kDetectionSections,
                       .script = kDetectionScript,
                       .script_sha256 = kDetectionScriptSha256});
}

std::string render_classification_page(const EvalPage& page) {
  return render(page, {.sections = kClassificationSections,
                       .script = kClassificationScript,
                       .script_sha256 = kClassificationScriptSha256});
}

}  // namespace retina
