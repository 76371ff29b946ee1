// The page's hand-written parts: text of the files here, put into C++ by embed_page.cmake.
#pragma once

namespace retina {

extern const char* const kPageHtml;    // page.html: @NAME@ stands for what eval_page.cpp fills in
extern const char* const kPageStyle;   // page.css
extern const char* const kPageScript;  // all scripts, in the order of CMakeLists.txt

}  // namespace retina
