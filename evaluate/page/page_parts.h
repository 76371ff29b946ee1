// The page's hand-written parts: text of the files here, put into C++ by embed_page.cmake.
#pragma once

namespace retina {

extern const char* const kPageHtml;   // page.html: @NAME@ stands for what eval_page.cpp fills in
extern const char* const kPageStyle;  // page.css
// Of each kind of page: its sections.html, and all its scripts in the order of CMakeLists.txt with
// their SHA-256 in hexadecimal digits.
extern const char* const kDetectionSections;
extern const char* const kDetectionScript;
extern const char* const kDetectionScriptSha256;
extern const char* const kClassificationSections;
extern const char* const kClassificationScript;
extern const char* const kClassificationScriptSha256;

}  // namespace retina
