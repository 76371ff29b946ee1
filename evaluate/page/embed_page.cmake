# Writes OUTPUT, the C++ source of page_parts.h, from the pages' files in FOLDER. DETECTION_SCRIPTS
# and CLASSIFICATION_SCRIPTS are joined in their order.
file(READ ${FOLDER}/page.html html)
file(READ ${FOLDER}/page.css style)
file(READ ${FOLDER}/detection/sections.html detection_sections)
file(READ ${FOLDER}/classification/sections.html classification_sections)
foreach(kind detection classification)
  string(TOUPPER ${kind} list)
  set(${kind}_script "")
  foreach(name ${${list}_SCRIPTS})
    file(READ ${FOLDER}/${name} text)
    string(APPEND ${kind}_script "${text}")
  endforeach()
  string(SHA256 ${kind}_script_sha256 "${${kind}_script}")
endforeach()
set(source "#include \"evaluate/page/page_parts.h\"\n\nnamespace retina {\n\n")
foreach(part html:kPageHtml style:kPageStyle
        detection_sections:kDetectionSections detection_script:kDetectionScript
        detection_script_sha256:kDetectionScriptSha256
        classification_sections:kClassificationSections
        classification_script:kClassificationScript
        classification_script_sha256:kClassificationScriptSha256)
  string(REPLACE ":" ";" part ${part})
  list(GET part 0 text)
  list(GET part 1 name)
  if("${${text}}" MATCHES "\\)page\"")
    message(FATAL_ERROR "the page's ${text} holds the end of a raw string")
  endif()
  string(APPEND source "const char* const ${name} = R\"page(${${text}})page\";\n")
endforeach()
file(WRITE ${OUTPUT} "${source}\n}  // namespace retina\n")
