# Writes OUTPUT, the C++ source of page_parts.h, from the page's files in FOLDER. SCRIPTS are joined
# in their order.
set(script "")
foreach(name ${SCRIPTS})
  file(READ ${FOLDER}/${name} text)
  string(APPEND script "${text}")
endforeach()
file(READ ${FOLDER}/page.html html)
file(READ ${FOLDER}/page.css style)
foreach(part html style script)
  if("${${part}}" MATCHES "\\)page\"")
    message(FATAL_ERROR "the page's ${part} holds the end of a raw string")
  endif()
endforeach()
file(WRITE ${OUTPUT}
  "#include \"evaluate/page/page_parts.h\"\n\nnamespace retina {\n\n"
  "const char* const kPageHtml = R\"page(${html})page\";\n"
  "const char* const kPageStyle = R\"page(${style})page\";\n"
  "const char* const kPageScript = R\"page(${script})page\";\n\n"
  "}  // namespace retina\n")
