# Checks of the text itself.
add_test(NAME static.layers COMMAND ${CMAKE_SOURCE_DIR}/tools/layers.py)
add_test(NAME static.format COMMAND ${CMAKE_SOURCE_DIR}/tools/format --check)
add_test(NAME static.tidy COMMAND ${CMAKE_SOURCE_DIR}/tools/tidy.py ${CMAKE_BINARY_DIR})
set_tests_properties(static.layers static.format static.tidy PROPERTIES LABELS static TIMEOUT 900)
