# retina_embed_page(OUTPUT SYMBOL FILE...): writes OUTPUT, C++ that defines the constant SYMBOL: an
# EmbeddedText (shared/report/page.h) of the files joined in their order.
if(CMAKE_SCRIPT_MODE_FILE)
  set(text "")
  foreach(file ${FILES})
    file(READ ${file} part)
    string(APPEND text "${part}")
  endforeach()
  if(text MATCHES "\\)page\"")
    message(FATAL_ERROR "${FILES}: holds the end of a raw string")
  endif()
  string(SHA256 hash "${text}")
  string(REGEX REPLACE "(..)" "\\\\x\\1" hash "${hash}")
  file(WRITE ${OUTPUT} "#include \"shared/report/page.h\"\n\nnamespace retina {\n\n"
       "extern const EmbeddedText ${SYMBOL};\nconst EmbeddedText ${SYMBOL}{R\"page(${text})page\",\n  {\"${hash}\", 32}};\n\n}  // namespace retina\n")
  return()
endif()

function(retina_embed_page output symbol)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  set(script ${CMAKE_SOURCE_DIR}/shared/report/kit/embed.cmake)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DSYMBOL=${symbol} "-DFILES=${ARGN}" -P ${script}
    DEPENDS ${script} ${ARGN} COMMENT "Embedding ${symbol}" VERBATIM)
endfunction()
