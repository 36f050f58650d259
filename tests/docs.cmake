# What is written about the programs, compared with the programs.
add_test(NAME static.docs COMMAND ${CMAKE_SOURCE_DIR}/tools/check-docs.py ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
set_tests_properties(static.docs PROPERTIES LABELS static TIMEOUT 120)
