#include "shared/report/page_head.h"

#include <charconv>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/report/text.h"

namespace retina {
namespace {

std::string bytes_of_hex(std::string_view digits) {
  std::string bytes;
  for (std::size_t at = 0; at + 2 <= digits.size(); at += 2) {
    unsigned char byte = 0;
    const char* const end = digits.data() + at + 2;
    RETINA_CHECK(std::from_chars(digits.data() + at, end, byte, 16).ptr == end,
                 "no hash: ", digits);
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

}  // namespace

std::string page_head(const PageHead& head) {
  std::string policy =
      "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
      "style-src 'unsafe-inline'";
  if (!head.script_sha256.empty()) {
    policy += cat("; script-src 'sha256-", base64(bytes_of_hex(head.script_sha256)), "'");
  }
  return cat("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
             "<meta http-equiv=\"Content-Security-Policy\" content=\"", policy, "\">\n",
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
             escape_html(head.title), "</title>\n<style>", head.style, "</style>\n</head>\n");
}

}  // namespace retina
