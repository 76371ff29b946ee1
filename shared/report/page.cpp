#include "shared/report/page.h"

#include <algorithm>
#include <string_view>

#include "shared/base/cat.h"
#include "shared/base/json.h"
#include "shared/base/text_encoding.h"
#include "shared/base/version.h"

namespace retina {

extern const EmbeddedText kPageStyle;
extern const EmbeddedText kPageKit;

namespace {

// Returns the script's source for the Content-Security-Policy.
std::string script_source(const EmbeddedText& script) {
  return cat(" 'sha256-", base64(script.sha256), "'");
}

// Escapes text between tags; control characters other than newline and tab are dropped.
std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') {
      out += c;
    }
  }
  return out;
}

// Returns JSON in a <script> element: "<" occurs in strings only, and as an escape it cannot end or
// open an element.
std::string data_element(const char* id, std::string_view json) {
  std::string text = cat("<script type=\"application/json\" id=\"", id, "\">");
  text.reserve(text.size() + json.size() + json.size() / 64);
  for (std::size_t at = 0; at < json.size();) {
    const std::size_t bracket = std::min(json.find('<', at), json.size());
    text += json.substr(at, bracket - at);
    if (bracket < json.size()) text += "\\u003c";
    at = bracket + 1;
  }
  return text + "</script>\n";
}

std::string page_json(const Page& page) {
  JsonWriter json;
  json.begin_object().list("notes", page.notes).key("settings").begin_array();
  for (const auto& [name, value] : page.settings) {
    json.begin_array().value(name).value(value).end_array();
  }
  return json.end_array().key("data").raw(page.data).end_object().text();
}

std::string images_json(const std::map<std::int64_t, std::string>& jpegs) {
  JsonWriter json;
  json.begin_object();
  for (const auto& [id, jpeg] : jpegs) {
    json.field(cat(id), cat("data:image/jpeg;base64,", base64(jpeg)));
  }
  return json.end_object().text();
}

}  // namespace

std::vector<std::pair<std::string, std::string>> settings_of(
    const std::vector<EffectiveOption>& options) {
  std::vector<std::pair<std::string, std::string>> settings;
  for (const EffectiveOption& option : options) {
    if (option.json != "null") settings.emplace_back(option.name, option.json);
  }
  return settings;
}

std::string render_page(const Page& page, const EmbeddedText& script) {
  const std::string subtitle =
      page.subtitle.empty() ? ""
                            : cat("<p class=\"subtitle\">", escape_html(page.subtitle), "</p>");
  const std::string summary =
      page.summary.empty() ? "" : cat("<pre>", escape_html(page.summary), "</pre>");
  return cat(
      // The head: the rules for the browser come before everything that they apply to.
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>",
      escape_html(page.title), "</title>\n<meta http-equiv=\"Content-Security-Policy\" content=\"",
      "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; ",
      "style-src 'unsafe-inline'; script-src", script_source(kPageKit), script_source(script),
      "\">\n", "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<style>",
      kPageStyle.text, "</style>\n</head>\n",
      // The content for a reader without scripts.
      "<body>\n<main>\n<header><h1>", escape_html(page.title), "</h1>", subtitle, "</header>\n",
      "<noscript><div class=\"card note\">A script draws this page, and scripts are off here.",
      summary, "</div></noscript>\n<footer>retina-batch ", kProjectVersion, " (",
      escape_html(kGitRevision), ")</footer>\n</main>\n",
      // The elements that the scripts fill, their data, and the scripts.
      "<dialog id=\"sheet\" aria-labelledby=\"sheet-title\"></dialog>\n",
      "<dialog id=\"viewer\" aria-labelledby=\"viewer-title\"></dialog>\n",
      data_element("page", page_json(page)), data_element("images", images_json(page.jpegs)),
      "<script>", kPageKit.text, "</script>\n<script>", script.text,
      "</script>\n</body>\n</html>\n");
}

}  // namespace retina
